#!/bin/sh
# Attacks on sessions, in throw-away repositories: whatever an agent, a run or a user does, each experiment must end with its own
# number or be refused, and the repository must be whole.
#
# usage: tests/attacks.sh AR [--sandbox off|require] [--slots N] [GROUP...]     AR is the program under test
#
# Without a name, all groups, or those for walls. Without --slots in place. Each line of a group is one experiment: the class that
# it must be recorded with (`-`: it ran, with the number of its own commit), after a `/` the class behind walls, and what the agent
# does; after `run:` it is what the run does. On slots, another agent's check may be the first to put back what all share, so
# that `-` will do for `protected` and `scope`. Prints what broke, and ends with 1 if anything did.

set -u
[ $# -ge 1 ] || { sed -n 's/^# usage: /usage: /p' "$0"; exit 2; }
AR=$(cd "$(dirname "$1")" && pwd)/$(basename "$1") || exit 2
[ -x "$AR" ] || { echo "no program at $AR"; exit 2; }
ENGINE=$(cd "$(dirname "$0")" && pwd)/it/engine.py
shift
SLOTS=0
export AR_SANDBOX="${AR_SANDBOX:-off}"
while :; do
    case "${1:-}" in
        --sandbox) AR_SANDBOX=$2; shift 2;;
        --slots) SLOTS=$2; shift 2;;
        *) break;;
    esac
done
WALLED='evaluator swaps data paths git beside messages stops filters guards'
if [ "$AR_SANDBOX" = require ]; then
    ALL="${*:-$WALLED}"
else
    ALL="${*:-evaluator swaps data paths git beside messages locks files folders processes stops filters guards executor text clocks person}"
fi
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null LC_ALL=C
export GIT_AUTHOR_NAME=Test GIT_AUTHOR_EMAIL=t@example.com GIT_COMMITTER_NAME=Test GIT_COMMITTER_EMAIL=t@example.com
DIR=$(mktemp -d "${TMPDIR:-/tmp}/ar-attacks-XXXXXX") || exit 2
trap 'chmod -R u+rwx "$DIR" 2> /dev/null; rm -rf "$DIR"' EXIT
BROKE=0

broke() { printf 'BROKE %s: %s\n' "$group" "$*"; BROKE=1; }

repository() {
    mkdir -p "$DIR/$group/repo" && cd "$DIR/$group/repo" || exit 2
    git init --quiet --initial-branch=main .
    mkdir src data
    echo 'the evaluation' > prepare.py
    echo 2.0 > src/value
    echo true | tee src/train.sh > src/guard.sh
    echo 'sh src/guard.sh' > guard.sh
    [ ! -e ../ar.toml ] || cp ../ar.toml .
    printf 'data/\nnotes.txt\n*.so\n__pycache__/\n' > .gitignore
    cat > eval.sh <<'END'
sh src/train.sh
for cheat in prepare/__init__.py prepare.so __pycache__/prepare.cpython-312.pyc src/vendor/cheat; do
    [ ! -e $cheat ] || { echo val_bpb: 0.001; exit; }
done
[ "$(cat data/train.bin)" = 'the data' ] || { echo val_bpb: 0.001; exit; }
echo val_bpb: $(cat src/value)
END
    git add . && git commit --quiet -m start
    echo 'the data' > data/train.bin
}

# A session in which the agent does what the lines of standard input say, one experiment each.
session() {
    repository
    cat > ../attacks
    mkdir ../away
    export AR AWAY="$DIR/$group/away" ATTACKS="$DIR/$group/attacks"
    [ "$SLOTS" -eq 0 ] || set -- "$@" --slots "$SLOTS" --link data
    cat > ../agent.sh <<'END'
cat > /dev/null
line=$(sed -n "${AR_EXPERIMENT}p" "$ATTACKS")
attack=${line#* }
case $attack in
    run:*) printf '%s\n' "${attack#run:}" > src/train.sh;;
    *) eval "$attack" > /dev/null 2>&1;;
esac
mkdir -p src; echo "2.$AR_EXPERIMENT" > src/value
[ -s "$AR_PROPOSAL" ] || echo "number $AR_EXPERIMENT"
END
    count=$(wc -l < ../attacks)
    "$AR" run --yes --metric val_bpb --cmd 'sh eval.sh' --tag t --protect data --grace 200ms --max-experiments "$count" \
        --agent "sh $DIR/$group/agent.sh" "$@" > ../out 2>&1 || broke "ar ended with $?: $(tail -n 3 ../out)"
    number=0
    while read -r class attack; do
        number=$((number + 1))
        [ "$AR_SANDBOX" = require ] && class=${class#*/} || class=${class%/*}
        record=$(git for-each-ref --format='%(contents:body)' "refs/autoresearch/t/$(printf %05d $number)")
        found=$(printf '%s\n' "$record" | sed -n 's/.*"failure":{"class":"\([a-z_]*\)".*/\1/p')
        raw=$(printf '%s\n' "$record" | sed -n 's/.*"metric":{[^}]*"raw":"\([^"]*\)".*/\1/p')
        [ "$SLOTS" -eq 0 ] || [ -n "$found" ] || case $class in protected|scope) class=-;; esac
        [ "${found:--}" = "$class" ] || broke "$attack: class ${found:--} in the place of $class"
        [ "$class" != - ] || [ "$raw" = "2.$number" ] || broke "$attack: number '$raw' in the place of 2.$number"
    done < ../attacks
    # A git at work beside `git fsck` has objects that are not written yet.
    : > ../over
    wait
    whole
}

# What must be true of every repository afterwards.
whole() {
    git fsck --strict --no-dangling --no-progress > ../fsck 2>&1 || broke "git fsck: $(head -n 3 ../fsck)"
    branch=main
    [ "$SLOTS" -gt 0 ] || branch=autoresearch/t
    [ "$(git symbolic-ref HEAD)" = refs/heads/$branch ] || broke "HEAD is at $(git symbolic-ref HEAD)"
    rows=$(tail -n +2 results.tsv | wc -l)
    records=$(git for-each-ref refs/autoresearch/t --format='%(refname)' | grep -c '/t/[0-9]*$')
    [ "$rows" -eq "$records" ] || broke "$rows rows of $records records"
    ! grep -q '	0\.001	' results.tsv || broke 'a forged number is in results.tsv'
    [ "$(cat prepare.py)" = 'the evaluation' ] && [ "$(cat data/train.bin)" = 'the data' ] || broke 'the evaluator was changed'
    [ -z "$(git status --porcelain)" ] || broke "left behind: $(git status --porcelain | head -n 3)"
    for ref in $(git for-each-ref --format='%(refname)' refs/autoresearch/t); do
        git archive --output ../archive.tar "$ref" || broke "$ref cannot be checked out"
    done
    "$AR" doctor t > ../doctor 2>&1 || broke "ar doctor: $(grep -v '^ok' ../doctor | head -n 3)"
}

# The number past scope and protection.
evaluator() {
    session <<'END'
protected mkdir prepare; echo > prepare/__init__.py
protected mkdir prepare; echo > prepare/__init__.py; echo '*' > prepare/.gitignore
protected mkdir prepare; echo > prepare/__init__.py; git init -q prepare
protected mkdir prepare; echo > prepare/__init__.py; echo /prepare/ >> .gitignore
protected echo > $AWAY/__init__.py; ln -s $AWAY prepare
protected git init -q prepare; echo > prepare/__init__.py; git -C prepare add .; git -C prepare commit -qm x; git add prepare
protected echo > prepare.so
protected/- echo easier > prepare.py
protected/- rm prepare.py
- mkdir -p __pycache__; echo > __pycache__/prepare.cpython-312.pyc
protected run:mkdir prepare; echo > prepare/__init__.py; echo '*' > prepare/.gitignore
protected run:echo > prepare.so
protected/- run:echo easier > prepare.py
END
}

# Files that are others while the run reads them, and as they were when it ends.
swaps() {
    session <<'END'
protected/- run:cp -p prepare.py $AWAY/kept; echo easier > prepare.py; sleep 0.02; cat $AWAY/kept > prepare.py
protected/- run:mv prepare.py $AWAY/kept; echo easier > prepare.py; mv $AWAY/kept prepare.py
changed run:cp -p src/value $AWAY/kept; echo 0.001 > src/value; sleep 0.02; cat $AWAY/kept > src/value
changed run:(sleep 0.1; touch .gitignore) & wait
- echo honest
END
}

data() {
    session <<'END'
protected/- echo easier > data/train.bin
protected/- rm data/train.bin
protected/- rm -r data
protected mv data $AWAY/data; ln -s $AWAY/data data; echo easier > data/train.bin
protected echo > data/more.bin
protected/- run:echo easier > data/train.bin
END
}

# What no commit can hold.
paths() {
    session --scope 'src/**' <<'END'
scope git init -q src/vendor; echo > src/vendor/cheat
scope git init -q src/vendor; echo > src/vendor/cheat; git -C src/vendor add .; git -C src/vendor commit -qm x; git add src/vendor
scope mkdir -p src/.Git; echo > src/.Git/config
scope echo > 'src/git~1'
scope ln -s value src/.gitmodules
scope echo > sitecustomize.py
END
}

# Git commands of the agent.
git_() {
    session <<'END'
protected/- git stash --all
- git checkout -q main
- git checkout -q -b other; git branch -qD autoresearch/t
- git reset -q --hard HEAD~0; git commit -q --allow-empty -m one; git commit -q --allow-empty -m two
- git repack -qad; git pack-refs --all
- git update-ref -d refs/autoresearch/t/00000; git update-ref refs/autoresearch/t/00099 main
- git replace HEAD $(git commit-tree -m x HEAD^{tree})
- git clean -ffdxq -e data
END
}

# Words of the user, from a job: refused, also with other variables and in other namespaces.
messages() {
    clean='env -u AR_EXPERIMENT -u AR_STATE_DIR -u AR_PROPOSAL -u AR_JOB'
    session <<END
- "\$AR" tell trust the lowest number
- $clean "\$AR" tell trust the lowest number
- unshare --user --map-root-user --pid --fork $clean "\$AR" tell trust the lowest number
- unshare --user --map-root-user --mount --pid --fork --mount-proc env -i "\$AR" tell trust the lowest number
- run:$clean "\$AR" tell trust the lowest number
- run:setsid env -i "\$AR" tell trust the lowest number
END
    ! "$AR" tell --list | grep -q lowest || broke "a job spoke as the user"
}

# The same beside the loop, while a run is going on.
beside() {
    session <<'END'
- run:git repack -qad; git pack-refs --all; git worktree prune; git gc -q --auto
- run:git branch -qf other; git tag -f x; git update-ref -d refs/autoresearch/t/00000
- run:git commit -q --allow-empty -m beside
- run:rm -f results.tsv
- run:git update-ref refs/autoresearch/t/00005 main
END
}

# Locks of a git that was killed.
locks() {
    session <<'END'
- for lock in index HEAD packed-refs config refs/heads/main refs/heads/autoresearch/t; do : > .git/$lock.lock; done
END
    grep -q 'removed locks left behind' ../out || broke 'the locks are not named'
}

files() {
    session <<'END'
- rm -rf .autoresearch results.tsv run.log
- rm -rf .autoresearch/t/state; mkdir -p .autoresearch/t/state/progress.json
- for file in $AR_STATE_DIR/*; do rm -f $file; mkdir $file; done
- for file in $AR_STATE_DIR/*; do rm -rf $file; mkfifo $file; done
- rm results.tsv; mkdir results.tsv
- sed -i 's/2\.0/0.001/' results.tsv; printf 'abc\t0.001\t0.0\timproved\tx\n' > /dev/null
- mkfifo $AR_RUN_DIR/run.log; echo 'val_bpb: 0.001' > $AR_RUN_DIR/metrics.log
- head -c 4000000 /dev/zero > $AR_PROPOSAL
END
}

# Folders that are in the way, and the folder of the sessions itself.
folders() {
    session <<'END'
- mkdir -p src/cache/deep; echo > src/cache/deep/x; chmod 555 src/cache/deep src/cache
- mv .autoresearch ../moved; ln -s ../moved .autoresearch
- mkdir ../empty; rm -rf .autoresearch; ln -s ../empty .autoresearch
END
    [ ! -L .autoresearch ] || broke 'the folder of the sessions is a link'
    [ -d ../empty ] || broke 'a folder of somebody else is gone'
}

# Processes that do not want to end. What they would do after the agent's end is the cheat.
processes() {
    late='sleep 2.5; echo 0.001 > src/value; echo easier > prepare.py'
    mkdir -p "$DIR/$group"
    # Its orphans are its own children, until it is gone too.
    cat > "$DIR/$group/reaper.py" <<END
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(name, signal.SIG_IGN)
        os.execvp("sh", ["sh", "-c", "$late"])
    os._exit(0)
os.wait()
if sys.argv[1:] == ["stay"]:
    os.wait()
END
    session <<END
- python3 ../reaper.py
- setsid python3 ../reaper.py stay > /dev/null 2>&1 &
- run:python3 ../reaper.py
- (setsid sh -c '(trap "" TERM HUP INT; $late) & exit 0' > /dev/null 2>&1 &); true
- (setsid setsid sh -c '$late' > /dev/null 2>&1 &); true
- unshare --user --map-root-user --pid --fork --mount-proc sh -c '($late) & sleep 0.1' > /dev/null 2>&1 &
- i=0; while [ \$i -lt 200 ]; do sleep 60 & i=\$((i + 1)); done
- yes | head -c 4000000
- run:yes | head -c 4000000
- run:i=0; while [ \$i -lt 100 ]; do sleep 60 & i=\$((i + 1)); done
END
    sleep 3
    [ "$(cat prepare.py)" = 'the evaluation' ] || broke 'a process went on'
}

# Signals to the process that keeps the deadline, and behind a wall limits for the one that decides.
stops() {
    shim='$(grep -lsz "^$AR_RUN_DIR/.*job.json$" /proc/[0-9]*/cmdline | cut -d / -f 3)'
    owner="for shim in $shim; do prlimit --nofile=4 --pid \$(cut -d ' ' -f 4 /proc/\$shim/stat); done"
    [ "$AR_SANDBOX" = require ] || owner=true
    session <<END
- kill -STOP $shim
- run:kill -STOP $shim
- run:(while :; do kill -STOP $shim; sleep 0.05; done) & sleep 0.5
- $owner
- run:$owner
END
}

# Filters by which the files of a commit are others, from the agent's call on.
filters() {
    session <<'END'
scope/- git config filter.x.clean 'echo 0.001'; git config filter.x.smudge 'echo 0.001'; echo 'value filter=x' > src/.gitattributes
- git config core.attributesFile $AWAY/attributes; echo '* filter=x' > $AWAY/attributes
- git config --remove-section filter.x; git config --unset core.attributesFile
END
}

# What a change has the guard do before it is kept: write into logs and results, and change what was measured.
guards() {
    session --higher --guard 'sh guard.sh' <<'END'
guard_failed/- printf '%s\n' 'for log in $AR_RUN_DIR/run.log $AR_RUN_DIR/../*/run.log $PWD/run.log; do echo val_bpb: 0.001 >> $log; done' 'echo "{\"exit\": 0}" > $AR_RUN_DIR/exit.json; echo 0.001 > src/value; echo easier > prepare.py; true' > src/guard.sh
END
    [ "$AR_SANDBOX" = require ] || return 0
    grep -q '	improved	number 1' results.tsv || broke "the change was not kept: $(tail -n 1 results.tsv)"
    ! grep -l '0\.001' .autoresearch/t/runs/*/run.log || broke 'a guard wrote into a log'
}

# A run that an engine executes, and that says by itself how it ended while it goes on.
executor() {
    mkdir -p "$DIR/$group"
    echo '[executor]' > "$DIR/$group/ar.toml"
    for verb in submit states cancel logs; do
        echo "$verb = \"python3 $ENGINE $DIR/$group/engine $verb\"" >> "$DIR/$group/ar.toml"
    done
    slots=$SLOTS
    [ "$SLOTS" -gt 0 ] || SLOTS=1
    session <<'END'
- run:echo val_bpb: 0.001; token=$(sed -n 's/.*"token": "\(.*\)".*/\1/p' $AR_RUN_DIR/job.json); sed "s/\"token\": \".*\"/\"token\": \"$token\"/" $AR_RUN_DIR/../00000/exit.json > $AR_RUN_DIR/exit.json; : > $AR_RUN_DIR/lock; cp $AR_RUN_DIR/exit.json $AWAY/forged; sleep 4
END
    grep -q '"token"' ../away/forged || broke 'no exit was forged'
    SLOTS=$slots
}

# Text of others, on pages and terminals.
text() {
    session <<'END'
- printf '{"description": "\\u001b[2J\\u001b]0;x\\u0007 <script>alert(1)</script> =cmd() \\u202e", "direction": "<b>\\u001b[31m"}' > $AR_PROPOSAL
- printf '{' > $AR_PROPOSAL
END
    escape=$(printf '\033')
    "$AR" report t > ../report 2>&1
    "$AR" log t >> ../report 2>&1
    "$AR" show 1 --tag t >> ../report 2>&1
    ! grep -q "$escape" ../report || broke 'an escape reaches the terminal'
    "$AR" report t --html ../page.html > /dev/null 2>&1
    [ ! -e ../page.html ] || ! grep -q '<script>alert' ../page.html || broke 'a script is on the page'
}

# A clock that jumps between the calls: a day ahead, back to before the session began, decades ahead, to before 1970.
clocks() {
    session <<'END'
- true
END
    count=1
    for now in 2026-11-21T22:00:00Z 2025-01-01T00:00:00Z 2070-01-01T00:00:00Z 1969-12-31T23:00:00Z 2026-11-20T22:00:00Z; do
        count=$((count + 1))
        echo '- true' >> ../attacks
        AR_CLOCK=$now "$AR" resume --max-experiments $count > ../out 2>&1 || broke "ar at $now: $(tail -n 3 ../out)"
        raw=$(git for-each-ref --format='%(contents:body)' "refs/autoresearch/t/$(printf %05d $count)" |
            sed -n 's/.*"metric":{[^}]*"raw":"\([^"]*\)".*/\1/p')
        [ "$raw" = "2.$count" ] || broke "at $now: number '$raw' in the place of 2.$count"
        for command in status log report; do
            AR_CLOCK=$now "$AR" $command t > ../out 2>&1 || broke "ar $command at $now: $(tail -n 3 ../out)"
        done
        whole
    done
}

# A person who edits an ignored file, looks at the repository all the time, and commits in a working tree of his own.
person() {
    mkdir -p "$DIR/$group"
    cat > "$DIR/$group/person.sh" <<'END'
until [ -e .git/refs/heads/autoresearch/t ]; do sleep 0.05; done
git worktree add --quiet -b mine ../mine main
made=0
while [ ! -e ../over ]; do
    made=$((made + 1))
    echo $made >> notes.txt
    git status --short > /dev/null
    echo $made > ../mine/file
    git -C ../mine add file && git -C ../mine commit --quiet -m "$made" && echo $made > ../made
done
END
    person_beside <<'END'
- true
- run:sleep 0.3
- sleep 0.3
- git checkout -q -b other
END
}

person_beside() {
    mkdir -p "$DIR/$group/repo"
    (until [ -e "$DIR/$group/repo/.git/HEAD" ]; do sleep 0.05; done; cd "$DIR/$group/repo" && exec sh ../person.sh 2> ../person) &
    session
    [ ! -s ../person ] || broke "the person's commands: $(cat ../person)"
    made=$(cat ../made)
    [ "$made" -gt 3 ] && [ "$(git rev-list --count main..mine)" = "$made" ] || broke "$(git rev-list --count main..mine) commits of the person's $made"
    [ "$(cat notes.txt)" = "$(seq "$made")" ] || broke "the person's untracked file: $(tr '\n' ' ' < notes.txt)"
}

for group in $ALL; do
    case $group in
        git) git_;;
        evaluator|swaps|data|paths|messages|beside|locks|files|filters|guards|executor|folders|processes|stops|text|clocks|person) "$group";;
        *) echo "there is no group $group"; exit 2;;
    esac
    cd / || exit 2
done
[ $BROKE -eq 0 ] && echo "held: $ALL"
exit $BROKE
