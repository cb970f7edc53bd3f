#!/usr/bin/env python3
"""Runs jobs on other machines over ssh, without a scheduler: an executor for `ar`.

What it needs: a file system with hard links that this machine and the hosts share under the same path; `ssh HOST`
without a password; on the hosts Linux, with util-linux and GNU grep. Only this machine needs Python (3.8).

1. Make a folder for the queue on the shared file system, beside this file or wherever AR_SSH_STATE says. It is never
   made for you: a file system that is not mounted must not look like an empty queue.

       mkdir jobs

2. Name the hosts and their slots in its file `hosts`, or in AR_HOSTS. With `gpus=`, each slot has GPUs of its own in
   CUDA_VISIBLE_DEVICES: here box2 has two slots with one GPU, and box3 two slots with two.

       echo 'box1:2 box2:gpus=0,1 box3:gpus=0+1,2+3' > jobs/hosts

3. Write into ar.toml:

       [executor]
       submit = "python3 /shared/ssh_jobs.py submit"
       states = "python3 /shared/ssh_jobs.py states"
       cancel = "python3 /shared/ssh_jobs.py cancel"
       logs = "python3 /shared/ssh_jobs.py logs"

AR_SSH is the ssh command, as in AR_SSH="ssh -F /shared/ssh_config". Where systemd ends what a user leaves behind
(KillUserProcesses=yes), jobs end with the connection that started them.

How it works. Each job has a folder in the queue, named by its token and renamed into place. `submit` and `states` offer
the jobs that nobody has taken to all hosts. There, one process per slot locks its slot, by a local file, and takes the
first free job by making the hard link `claim`. Only one such link can be made, so a job is executed once, however many
calls offer it and whichever of them is killed. Nothing is locked on this machine.

In a job's folder, `run.sh` is the job, `claim` says who took it (host, boot, process, its start), `output` is what it
printed, `exit` how it ended, `cancel` that it was to end, `lost` that its host answered and no longer has it. Jobs of a
host that does not answer keep their state. Jobs that are over are deleted after a week.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

STATE = Path(os.environ.get("AR_SSH_STATE") or Path(__file__).resolve().parent / "jobs")
# An open ControlMaster is used, but none is opened: it would outlive this call and hold its output open.
OPTIONS = "-T -o BatchMode=yes -o ConnectTimeout=5 -o ControlMaster=no -o LogLevel=ERROR --"
SSH = shlex.split(f"{os.environ.get('AR_SSH', 'ssh')} {OPTIONS}")
TOKEN = re.compile(r"ar-[\w.-]+", re.ASCII)
# How long a host may take, in seconds, and how long a job that is over is kept.
PATIENCE, KEPT = 20, 7 * 24 * 3600
# The content of a claim by which a job that nobody has taken is cancelled.
NOBODY = "nobody"

# What hosts execute, in the folder of the queue: `sh FILE look|stop TOKEN…`, `sh FILE slot HOST NUMBER GPUS TOKEN…`.
ON_HOST = r"""
boot=$(cat /proc/sys/kernel/random/boot_id)

# When a process started: with its id and the boot, this names it for good.
start_of() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

# All processes of a job, also those that outlived the process that waits for it.
members() { grep -lszxF "AR_SSH_TOKEN=$1" /proc/[0-9]*/environ | cut -d/ -f3; }

look() {
    for token; do
        state=gone
        read -r _ its_boot pid start <"$token/claim"
        if [ "$its_boot" = "$boot" ]; then
            if [ "$(start_of "$pid")" = "$start" ] || [ -n "$(members "$token")" ]; then state=runs; fi
        fi
        # Read last: a job that ended meanwhile has left it.
        [ ! -e "$token/exit" ] || state="over $(cat "$token/exit")"
        echo "$token $state"
    done
}

stop() {
    for token; do
        read -r _ its_boot pid start <"$token/claim"
        [ "$its_boot" = "$boot" ] || continue
        [ "$(start_of "$pid")" = "$start" ] || pid=$(members "$token")
        [ -z "$pid" ] || kill -TERM $pid 2>/dev/null
    done
    return 0
}

term() {
    stopped=1
    [ -z "$!" ] || kill -TERM "$!" 2>/dev/null
}

slot() {
    stopped= host=$1 number=$2 gpus=$3 locks=/tmp/ar-slots-$(id -u)
    shift 3
    mkdir -p -m 700 "$locks"
    exec 9>"$locks/$host-$number"
    flock -n 9 || exit 0
    trap term TERM
    for token; do
        [ -e "$token/run.sh" ] && [ ! -e "$token/claim" ] || continue
        mine=$token/claim.$host.$$
        echo "$host $boot $$ $(start_of $$)" >"$mine"
        ln "$mine" "$token/claim" 2>/dev/null
        # Over NFS, a link that was made can be reported as one that existed.
        [ "$mine" -ef "$token/claim" ] && taken=1 || taken=
        rm -f "$mine"
        [ -z "$taken" ] || run
    done
}

run() {
    # Also lets the caller go, who waits for the end of this output.
    exec >"$token/output" 2>&1
    code=143 left=30
    if [ -z "$stopped" ]; then
        AR_SSH_GPUS=$gpus sh "$token/run.sh" 9>&- </dev/null &
        wait "$!"
        code=$?
        # It was a TERM that ended the wait. What has just started may miss one.
        while kill -0 "$!" 2>/dev/null; do
            sleep 1
            kill -TERM "$!" 2>/dev/null
            left=$((left - 1))
            [ "$left" -gt 0 ] || members "$token" | xargs -r kill -KILL
        done
    fi
    echo "$code" >"$token/exit.part"
    mv "$token/exit.part" "$token/exit"
    exit 0
}

"$@"
"""
# A name of its own for each version: a shell may be reading an earlier one.
PROGRAM = f"host-{zlib.crc32(ON_HOST.encode()):08x}.sh"


def submit(request):
    token = request["token"]
    if not TOKEN.fullmatch(token):
        sys.exit(f"not a token: {token!r}")
    variables = [*(f"{name}={value}" for name, value in request["env"].items()), f"AR_SSH_TOKEN={token}"]
    # The inner shell, because env would take a program with = in its path for a variable.
    words = [shlex.join(["env", *variables]), '${AR_SSH_GPUS:+"CUDA_VISIBLE_DEVICES=$AR_SSH_GPUS"}',
             shlex.join(["sh", "-c", 'exec "$@"', "sh", *request["command"]])]
    folder = Path(tempfile.mkdtemp(prefix=".new-", dir=STATE))
    write(folder / "run.sh", f"cd {shlex.quote(request['cwd'])} || exit 127\nexec {' '.join(words)}\n")
    try:
        os.rename(folder, STATE / token)
    except OSError:
        shutil.rmtree(folder)
        if not (STATE / token).is_dir():
            raise
    refresh()
    with suppress(OSError):
        forget_old()
    return {"id": token}


def states(request):
    refresh()
    known = [folder.name for folder in jobs()]
    asked = [named(job) for job in request["jobs"]] or known
    found = {token: state_of(STATE / token) for token in asked if token in known}
    answer = [{"id": token, "token": token, "state": state, "exit": code} for token, (state, code) in found.items()]
    return {"jobs": answer}


def cancel(request):
    running = {}
    for token in {named(job) for job in request["jobs"]}:
        folder = STATE / token
        if not TOKEN.fullmatch(token) or not folder.is_dir() or is_over(folder) or take(folder):
            continue
        write(folder / "cancel", "")
        running.setdefault(claim(folder)[0], []).append(token)
    answers = in_parallel({host: f"{call('stop', tokens)} || exit 1\n" for host, tokens in running.items()})
    silent = [host for host, lines in answers.items() if lines is None]
    if silent:
        sys.exit(f"no answer from {', '.join(silent)}")
    return {}


def logs(request):
    if not TOKEN.fullmatch(request["id"]) or not (STATE / request["id"]).is_dir():
        sys.exit(f"no job {request['id']}")
    return (read(STATE / request["id"] / "output") or "")[-(1 << 20):]


def refresh():
    """Asks the hosts about the jobs that they took, notes which are lost, and offers those that nobody has taken."""
    taken, free = {}, []
    for folder in jobs():
        state, claimed = state_of(folder)[0], claim(folder)
        if state == "running":
            taken.setdefault(claimed[0], []).append(folder.name)
        elif state == "pending":
            free.append(folder.name)
    scripts = {host: f"{call('look', tokens)} || exit 1\n" for host, tokens in taken.items()}
    for host, slots in hosts().items() if free else ():
        for number, gpus in enumerate(slots):
            offer = f"setsid {call('slot', [host, str(number), gpus, *free[:100]])} &\n"
            scripts[host] = scripts.get(host, "") + offer
    for lines in in_parallel(scripts).values():
        for token, state, *code in map(str.split, lines or ()):
            # A file that its host has written may not be seen from here yet.
            if state == "over" and not (STATE / token / "exit").exists():
                put(f"{token}/exit", code[0])
            if state == "gone":
                put(f"{token}/lost", "")


def in_parallel(scripts):
    """The lines that each host answers to its script; None if it does not answer."""
    with ThreadPoolExecutor(max(len(scripts), 1)) as pool:
        return dict(zip(scripts, pool.map(ask, scripts, scripts.values())))


def ask(host, script):
    # By standard input, so that it does not matter which shell the user has there.
    script = f"cd {shlex.quote(str(STATE))} || exit 1\n{script}exit 0\n"
    try:
        done = subprocess.run([*SSH, host, "exec sh -s"], input=script.encode(errors="surrogateescape"),
                              stdout=subprocess.PIPE, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout.decode().splitlines() if done.returncode == 0 else None


def call(verb, arguments):
    """What a host executes for a verb of the program above."""
    return f"sh ./{PROGRAM} {verb} {shlex.join(arguments)} </dev/null"


def hosts():
    """The GPUs of each slot of each host; no text for a slot without GPUs of its own."""
    text = os.environ.get("AR_HOSTS") or read(STATE / "hosts") or sys.exit(f"no AR_HOSTS, and no file {STATE}/hosts")
    found = {}
    for word in re.sub("#.*", "", text).split():
        host, _, slots = word.rpartition(":")
        gpus = slots.startswith("gpus=") and slots[len("gpus="):].replace("+", " ").split(",")
        found[host] = [each.replace(" ", ",") for each in gpus] if gpus else [""] * int(slots)
    return found


def jobs():
    """The folders of all jobs, those submitted first at the beginning."""
    with os.scandir(STATE) as entries:
        names = [entry.name for entry in entries if TOKEN.fullmatch(entry.name)]
    return sorted(map(STATE.joinpath, names), key=lambda folder: ((folder / "run.sh").stat().st_mtime_ns, folder.name))


def named(job):
    return job.get("token") or job["id"]


def claim(folder):
    """Who took a job: host, boot, process and its start time; None if nobody has."""
    text = read(folder / "claim")
    return text and text.split()


def take(folder):
    """Takes a job so that no host can; whether nobody had."""
    mine = folder / f"claim.{os.uname().nodename}.{os.getpid()}"
    write(mine, NOBODY)
    try:
        os.link(mine, folder / "claim")
    except FileExistsError:
        pass
    finally:
        mine.unlink()
    return claim(folder) == [NOBODY]


def state_of(folder):
    """The state of a job by the notes in its folder, and its exit status if it ended."""
    code, claimed = read(folder / "exit"), claim(folder)
    if code:
        cancelled = (folder / "cancel").exists()
        return "cancelled" if cancelled else "failed" if int(code) else "done", int(code)
    if claimed == [NOBODY]:
        return "cancelled", None
    return "lost" if (folder / "lost").exists() else "running" if claimed else "pending", None


def is_over(folder):
    return state_of(folder)[0] not in ("pending", "running")


def forget_old():
    """Deletes jobs that are over since long. First renamed, since one without its claim could be taken again."""
    for folder in STATE.iterdir():
        if folder.is_dir() and folder.stat().st_mtime < time.time() - KEPT:
            if TOKEN.fullmatch(folder.name) and is_over(folder):
                folder = folder.rename(STATE / f".old-{folder.name}")
            if folder.name.startswith((".new-", ".old-")):
                shutil.rmtree(folder, ignore_errors=True)


def read(path):
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None


def write(path, text):
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def put(name, text):
    """Writes a file in the queue's folder as a whole, unless it exists."""
    if not (STATE / name).exists():
        part = STATE / f"{name}.{os.uname().nodename}.{os.getpid()}"
        write(part, text)
        part.rename(STATE / name)


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in ("submit", "states", "cancel", "logs"):
        sys.exit(__doc__)
    if not STATE.is_dir():
        sys.exit(f"no folder {STATE}: make it, or mount its file system")
    os.umask(0o077)
    sys.stdout.reconfigure(encoding="utf-8")
    put(PROGRAM, ON_HOST)
    request = json.load(sys.stdin.buffer)
    if request["version"] != 1:
        sys.exit("made for version 1 of the protocol")
    answer = globals()[sys.argv[1]](request)
    print(answer if isinstance(answer, str) else json.dumps({"version": 1, **answer}))


if __name__ == "__main__":
    main()
