#!/usr/bin/env python3
"""Runs jobs on a Ray cluster, over the REST API of Ray's dashboard: an executor for `ar`.

What it needs: a cluster whose nodes have the repository and `ar` under the same paths as this machine, and whose
dashboard is reached from here, if need be by `ssh -N -L 8265:127.0.0.1:8265 HEAD`. Python 3.8, and no `ray`.

1. Say where the dashboard is, unless it is at http://127.0.0.1:8265, as for Ray's own command line:

       export RAY_API_SERVER_ADDRESS=http://head:8265    # else RAY_ADDRESS
       export RAY_AUTH_TOKEN=...                         # else ~/.ray/auth_token; only if the cluster asks for one

2. Write into ar.toml what a run needs. Without resources, Ray starts every job at once.

       [executor]
       submit = "python3 /shared/ray_jobs.py submit"
       states = "python3 /shared/ray_jobs.py states"
       cancel = "python3 /shared/ray_jobs.py cancel"
       logs = "python3 /shared/ray_jobs.py logs"

       [executor.resources]
       gpus = 1                        # entrypoint_num_gpus
       cpus = 8                        # entrypoint_num_cpus
       memory = 34359738368            # entrypoint_memory, in bytes
       custom = { a100 = 1 }           # entrypoint_resources

3. Start the head with RAY_JOB_START_TIMEOUT_SECONDS=604800 in its environment. Otherwise Ray gives up a job that has
   waited for its resources for 15 minutes, and the job is reported as lost.

How it works. A job's submission id is its token, which Ray accepts only once. Variables are part of the job's command
line and not of Ray's `env_vars`, where Ray would expand $ in them and set them for processes of its own. What Ray sets
itself, such as CUDA_VISIBLE_DEVICES, stays. Ray kills a stopped job after RAY_JOB_STOP_WAIT_TIME_S, here 30 s; its
default of 3 s is too short for a run that ends by itself. A job that is stopped while it waits for resources stays
pending until it has them, and then ends before its command starts. A job whose supervisor died is lost and gets a TERM,
where the node has `setpriv`. A head that was started again without fault tolerance has forgotten its jobs, and then
`states` does not list them.
"""

import json
import os
import shlex
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

# How long one answer may take, in seconds; a call asks at most twice.
PATIENCE = 12
# How long a stopped job may take to end by itself, in seconds.
GRACE = 30
STATES = {"PENDING": "pending", "RUNNING": "running", "SUCCEEDED": "done", "FAILED": "failed", "STOPPED": "cancelled"}
OVER = ("SUCCEEDED", "FAILED", "STOPPED")
RESOURCES = {"gpus": "entrypoint_num_gpus", "cpus": "entrypoint_num_cpus", "memory": "entrypoint_memory",
             "custom": "entrypoint_resources"}
# What Ray sets for a job. What this machine has is of no use there.
RAYS_OWN = ("CUDA_VISIBLE_DEVICES", "RAY_ADDRESS", "RAY_API_SERVER_ADDRESS")

# Passes a TERM on, since the job may have left the process group that Ray knows, and again each second: what has just
# started may miss one. Before that it leaves Ray a second to end what was stopped while it waited for resources.
ENTRYPOINT = """trap 'stopped=1; kill -TERM "$!" 2>/dev/null' TERM
cd {cwd} || exit 127
sleep 1
[ -z "$stopped" ] || exit 143
$(command -v setpriv >/dev/null && echo setpriv --pdeathsig TERM) {command} </dev/null &
wait "$!"; code=$?
while kill -0 "$!" 2>/dev/null; do sleep 1; kill -TERM "$!" 2>/dev/null; done
exit "$code"
"""


class Unknown(Exception):
    """Ray has no such job."""


def submit(request):
    unknown = set(request["resources"]) - set(RESOURCES)
    if unknown:
        sys.exit(f"[executor.resources] has {', '.join(sorted(unknown))}; known are {', '.join(RESOURCES)}")
    token = request["token"]
    variables = [f"{name}={value}" for name, value in request["env"].items() if name not in RAYS_OWN]
    # The inner shell, because env would take a program with = in its path for a variable.
    command = shlex.join(["env", *variables, "sh", "-c", 'exec "$@"', "sh", *request["command"]])
    job = {
        "submission_id": token,
        "entrypoint": ENTRYPOINT.format(cwd=shlex.quote(request["cwd"]), command=command),
        "runtime_env": {"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": str(GRACE)}},
        **{RESOURCES[name]: value for name, value in request["resources"].items()},
    }
    try:
        call("POST", "", job)
    except HTTPError as error:
        # Ray refuses an id that it has.
        try:
            call("GET", f"/{quote(token)}")
        except Unknown:
            sys.exit(f"{error}: {error.read().decode(errors='replace')}")
    return {"id": token}


def states(request):
    asked = {named(job) for job in request["jobs"]}
    answer = []
    for job in call("GET", ""):
        token = job["submission_id"] or ""
        if token in asked or not asked and token.startswith("ar-"):
            answer.append({"id": token, "token": token, "state": state(job), "exit": job.get("driver_exit_code")})
    return {"jobs": answer}


def state(job):
    """A failed job without an exit status was never started, or its node went down."""
    if job["status"] == "FAILED" and job.get("driver_exit_code") is None:
        return "lost"
    return STATES[job["status"]]


def cancel(request):
    open_jobs = {job["submission_id"] for job in call("GET", "") if job["status"] not in OVER}
    for token in {named(job) for job in request["jobs"]} & open_jobs:
        try:
            call("POST", f"/{quote(token)}/stop")
        except Unknown:
            pass
    return {}


def logs(request):
    return call("GET", f"/{quote(request['id'])}/logs")["logs"][-(1 << 20):]


def named(job):
    return job.get("token") or job["id"]


def call(method, path, body=None):
    data = json.dumps(body).encode() if body else None
    request = Request(f"{address()}/api/jobs{path or '/'}", data, headers(), method=method)
    try:
        with urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)
    except HTTPError as error:
        if error.code == 404:
            raise Unknown from error
        raise
    except OSError as error:
        sys.exit(f"no answer from {address()}: {error}")


def address():
    found = os.environ.get("RAY_API_SERVER_ADDRESS") or os.environ.get("RAY_ADDRESS") or "http://127.0.0.1:8265"
    if not found.startswith(("http://", "https://")):
        sys.exit(f"{found} is not the address of a dashboard, as in http://head:8265: set RAY_API_SERVER_ADDRESS")
    return found.rstrip("/")


def headers():
    """Also those of RAY_JOB_HEADERS, a JSON object, as for Ray's own command line."""
    found = {"Content-Type": "application/json", **json.loads(os.environ.get("RAY_JOB_HEADERS") or "{}")}
    file = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    token = os.environ.get("RAY_AUTH_TOKEN") or (file.read_text() if file.is_file() else "")
    return {**found, "Authorization": f"Bearer {token.strip()}"} if token.strip() else found


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in ("submit", "states", "cancel", "logs"):
        sys.exit(__doc__)
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    request = json.load(sys.stdin.buffer)
    if request["version"] != 1:
        sys.exit("made for version 1 of the protocol")
    answer = globals()[sys.argv[1]](request)
    print(answer if isinstance(answer, str) else json.dumps({"version": 1, **answer}))


if __name__ == "__main__":
    main()
