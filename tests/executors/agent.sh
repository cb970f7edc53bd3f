# A fake agent: adds a file of the experiment's own, also when it is called again for the same experiment.
set -eu
cat >/dev/null
echo "idea $AR_EXPERIMENT" >"ideas/$AR_EXPERIMENT"
idea="idea $AR_EXPERIMENT"
[ -z "${AR_PROPOSAL:-}" ] || printf '{"description": "%s", "direction": "%s"}\n' "$idea" "$idea" >"$AR_PROPOSAL"
