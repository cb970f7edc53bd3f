# A fake agent: adds a file of the experiment's own, also when it is called again for the same experiment. Each has a direction of its
# own, so that nobody asks for one.
set -eu
cat >/dev/null
echo "idea $AR_EXPERIMENT" >"ideas/$AR_EXPERIMENT"
idea="idea $AR_EXPERIMENT"
[ -z "${AR_PROPOSAL:-}" ] || printf '{"description": "%s", "direction": "%s"}\n' "$idea" "i$AR_EXPERIMENT" >"$AR_PROPOSAL"
