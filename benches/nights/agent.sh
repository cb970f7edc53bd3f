# A scripted agent: adds the next idea of the night's stream to ideas.txt.
#
#   sh agent.sh FOLDER
#
# Called again for the same experiment, it makes the same change. FOLDER/refusals lists the ideas before which it is refused once
# for a rate limit.
set -eu
night=$1
cat >/dev/null
read -r number experiment <"$night/idea"
[ -n "${AR_EXPERIMENT:-}" ] && [ "$experiment" = "${AR_EXPERIMENT:-}" ] || number=$((number + 1))
if grep -qx "$number" "$night/refusals" && mkdir "$night/refused-$number" 2>/dev/null; then
    echo 'Rate limit is exceeded. Try again in 1 seconds.'
    exit 1
fi
echo "$number ${AR_EXPERIMENT:-none}" >"$night/idea"
line=$(sed -n "${number}p" "$night/ideas")
grep -qxF "$line" ideas.txt || echo "$line" >>ideas.txt
# A direction of its own, so that nobody asks for one.
[ -z "${AR_PROPOSAL:-}" ] || printf '{"description": "idea %s", "direction": "i%s"}\n' "$number" "$number" >"$AR_PROPOSAL"
echo "idea $number"
