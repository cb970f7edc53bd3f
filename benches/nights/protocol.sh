# The loop as people give it to an agent in prose: edit, commit, run, grep, append, reset. A refused call is made again. Started
# again after a kill, it does as a careful person would: back to the last kept commit, with its number as the one to beat.
#
#   sh protocol.sh AGENT COMMAND FOLDER
agent=$1 command=$2 night=$3

measure() {
    sh -c "$command" >run.log 2>&1
    value=$(grep '^score:' run.log | tail -1 | cut -d' ' -f2)
    if [ -z "$value" ]; then
        status=crash value=0
    elif [ -z "$best" ] || awk "BEGIN { exit !($value > $best) }"; then
        best=$value status=keep
    else
        status=discard
    fi
    printf '%s\t%s\t%s\t%s\n' "$(git rev-parse HEAD)" "$value" "$status" "$1" >>results.tsv
    [ "$status" = keep ] || [ "$1" = baseline ] || git reset -q --hard HEAD~1
}

best=
if [ -e results.tsv ]; then
    set -- $(awk '$3 == "keep" { kept = $1 " " $2 } END { print kept }' results.tsv)
    git reset -q --hard "$1"
    best=$2
else
    measure baseline
fi
while [ "$(wc -l <"$night/runs")" -lt "$(cat "$night/limit")" ]; do
    sh -c "$agent" </dev/null >agent.log || { sleep 0.2; continue; }
    description=$(tail -1 agent.log)
    git commit -qam "$description"
    measure "$description"
done
