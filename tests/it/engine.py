"""An engine for tests of `--executor commands`: `engine.py FOLDER submit|states|cancel|logs`.

Each job is a folder `jobs/N` with the token, and once it has begun `pid`, at its end `exit`. The file `hold` has how many jobs may
begin; the others are pending. Each line of `faults-VERB` makes one call of that verb go wrong: `late` (done, and then no answer), `fail`,
`hang` (while the caller waits), `empty` (an answer without jobs), `twice` (an answer with each job twice), `garbage`. `state-TOKEN` has a
state that is told in place of the true one. `calls` counts the calls.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

FOLDER, VERB = sys.argv[1], sys.argv[2]
JOBS = os.path.join(FOLDER, "jobs")

# Runs the command of a job, notes what it came to, and leaves the session of the engine.
RUN = 'echo $$ >"$0/pid.part" && mv "$0/pid.part" "$0/pid"; "$@" >"$0/out" 2>&1; echo $? >"$0/exit.part"; mv "$0/exit.part" "$0/exit"'


def read(*path):
    try:
        with open(os.path.join(FOLDER, *path)) as file:
            return file.read().strip()
    except OSError:
        return None


def write(text, *path):
    whole = os.path.join(FOLDER, *path)
    with open(whole + ".part", "w") as file:
        file.write(text)
    os.rename(whole + ".part", whole)


def fault():
    """What is to go wrong with this call."""
    lines = (read("faults-" + VERB) or "").splitlines()
    if lines:
        write("\n".join(lines[1:]), "faults-" + VERB)
        return lines[0]
    return ""


def all_jobs():
    return sorted(os.listdir(JOBS), key=int) if os.path.isdir(JOBS) else []


def state(job):
    told = read("state-" + read("jobs", job, "token"))
    code = read("jobs", job, "exit")
    if told:
        return told
    if os.path.exists(os.path.join(JOBS, job, "cancelled")):
        return "cancelled"
    if code is not None:
        return "done" if code == "0" else "failed"
    return "running" if read("jobs", job, "pid") else "pending"


def start_pending():
    most = int(read("hold") or 1 << 30)
    for job in all_jobs()[:most]:
        there = os.path.join(JOBS, job)
        if not any(os.path.exists(os.path.join(there, mark)) for mark in ["begun", "cancelled"]):
            write("", "jobs", job, "begun")
            asked = json.loads(read("jobs", job, "asked"))
            env = dict(os.environ, **asked["env"])
            command = ["sh", "-c", RUN, there, *asked["command"]]
            subprocess.Popen(command, env=env, cwd=asked["cwd"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, start_new_session=True)


def submit(asked):
    # A submission that is killed made a whole job or none.
    job = str(len(all_jobs()) + 1)
    os.makedirs(JOBS, exist_ok=True)
    part = tempfile.mkdtemp(dir=FOLDER)
    write(json.dumps(asked), part, "asked")
    write(asked["token"], part, "token")
    os.rename(part, os.path.join(JOBS, job))
    start_pending()
    return {"version": 1, "id": job}


def states(asked):
    start_pending()
    tokens = [job["token"] for job in asked["jobs"]]
    jobs = [{"id": job, "token": read("jobs", job, "token"), "state": state(job), "exit": None} for job in all_jobs()]
    return {"version": 1, "jobs": [job for job in jobs if not tokens or job["token"] in tokens]}


def cancel(asked):
    tokens = [job["token"] for job in asked["jobs"]]
    for job in all_jobs():
        if read("jobs", job, "token") in tokens and read("jobs", job, "exit") is None:
            write("", "jobs", job, "cancelled")
            pid = read("jobs", job, "pid")
            if pid:
                os.killpg(int(pid), signal.SIGTERM)
    return {"version": 1}


def main():
    caller = os.getppid()
    asked = json.loads(sys.stdin.read())
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with open(os.path.join(FOLDER, "calls"), "a") as calls:
            calls.write(VERB + "\n")
        wrong = fault()
        if wrong == "fail":
            sys.exit("the engine is away")
        if wrong == "empty":
            print(json.dumps({"version": 1, "jobs": []}))
            return
        if wrong == "garbage":
            print('{"version": 1, "jo')
            return
        if wrong != "hang":
            if VERB == "logs":
                print(read("jobs", asked["id"], "out") or "")
                return
            answer = {"submit": submit, "states": states, "cancel": cancel}[VERB](asked)
    if wrong == "twice":
        answer["jobs"] *= 2
    while wrong == "hang" and os.getppid() == caller:
        time.sleep(0.1)
    if wrong == "late":
        sys.exit("the answer got lost")
    print(json.dumps(answer))


main()
