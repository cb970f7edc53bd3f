# The loop as people give it to an agent in prose: edit, commit, run, grep, append, reset.
#
#   sh protocol.sh loop AGENT COMMAND EXPERIMENTS     a night of it
#   sh protocol.sh one COMMAND BEST                   one experiment of what is in the working tree
command=$2 best=

measure() {
    sh -c "$command" > run.log 2>&1
    set -- $(grep '^val_bpb:\|^memory_gb:' run.log | tail -2)
    value=$2 memory=$4
    if [ -z "$best" ] || awk "BEGIN { exit !($value < $best) }"; then
        best=$value status=keep
    else
        status=discard
    fi
    printf '%s\t%s\t%s\t%s\t%s\n' "$(git rev-parse --short=7 HEAD)" "$value" "$memory" "$status" "$description" >> results.tsv
}

experiment() {
    description="experiment $1"
    git commit -qam "$description"
    measure
    [ "$status" = keep ] || git reset -q --hard HEAD~1
}

case $1 in
loop)
    agent=$2 command=$3 description=baseline
    measure
    n=0
    while [ $((n += 1)) -le "$4" ]; do
        sh -c "$agent"
        experiment $n
    done
    ;;
one)
    best=$3
    experiment one
    ;;
esac
