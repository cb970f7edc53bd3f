#!/usr/bin/env python3
"""Tests the recipes of docs/recipes by the protocol alone, without `ar`: `protocol.py [ssh] [ray]`.

What an engine needs and this machine does not have is said aloud as SKIPPED. Every document that a recipe gets or
prints is checked against executor.schema.json.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

from engines import ENGINES, RECIPES, Skipped, wait_for

JOB = Path(__file__).resolve().parent / "job.py"
SCHEMAS = json.loads((RECIPES / "executor.schema.json").read_text())["$defs"]
KINDS = {"object": dict, "array": list, "string": str, "integer": int, "null": type(None)}
OVER = {"done", "failed", "cancelled", "timeout", "oom", "lost"}
# What a recipe may take, in seconds.
LIMIT = 30


class NoAnswer(Exception):
    """A recipe failed, printed something else than it has to, or took too long."""


def fits(value, schema):
    """Whether a value fits a schema, of the keywords that the file has."""
    if "$ref" in schema:
        return fits(value, SCHEMAS[schema["$ref"].rpartition("/")[2]])
    kinds = schema.get("type", [])
    fit = not kinds or any(type(value) is KINDS[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds))
    fit = fit and ("const" not in schema or value == schema["const"])
    fit = fit and ("enum" not in schema or value in schema["enum"])
    fit = fit and ("anyOf" not in schema or any(fits(value, each) for each in schema["anyOf"]))
    if fit and isinstance(value, str):
        return len(value) >= schema.get("minLength", 0) and re.search(schema.get("pattern", ""), value) is not None
    if fit and isinstance(value, list):
        return len(value) >= schema.get("minItems", 0) and all(fits(each, schema.get("items", {})) for each in value)
    if fit and isinstance(value, dict):
        known = schema.get("properties", {})
        return all(name in value for name in schema.get("required", ())) and all(
            fits(each, known.get(name, schema.get("additionalProperties", {}))) for name, each in value.items())
    return fit


class Case:
    """An engine with the files of its jobs, and its recipe's four commands."""

    def __init__(self, engine, folder):
        self.engine, self.folder, self.count = engine, folder, 0
        self.lines = folder / "lines of jobs, \"quoted\" $HOME = ü"
        self.recipe = RECIPES / f"{engine.name}_jobs.py"
        self.environment = {**os.environ, **engine.environment}

    def start(self, verb):
        pipe = subprocess.PIPE
        return subprocess.Popen([sys.executable, self.recipe, verb], env=self.environment, cwd="/", stdin=pipe,
                                stdout=pipe, stderr=pipe, start_new_session=True)

    def call(self, verb, **request):
        request = {"version": 1, **request}
        assert fits(request, SCHEMAS[f"{verb}.input"]), request
        process = self.start(verb)
        try:
            out, said = process.communicate(json.dumps(request).encode(), LIMIT)
        except subprocess.TimeoutExpired as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise NoAnswer(f"{verb}: not within {LIMIT} s") from error
        if process.returncode:
            raise NoAnswer(f"{verb}: {said.decode()[-1000:]}")
        answer = out.decode() if verb == "logs" else json.loads(out)
        assert fits(answer, SCHEMAS[f"{verb}.output"]), answer
        return answer

    def token(self):
        self.count += 1
        return f"ar-test-{os.getpid()}-{self.engine.name}-{self.count}"

    def job(self, token, seconds=0.0, code=0, env=None, cwd="/", python=sys.executable):
        command = [str(python), str(JOB), str(self.lines), token, str(seconds), str(code)]
        env = {"PATH": os.environ["PATH"], **(env or {})}
        return {"token": token, "command": command, "cwd": str(cwd), "env": env, "resources": self.engine.resources}

    def submit(self, *arguments, **options):
        token = self.token()
        job = self.call("submit", **self.job(token, *arguments, **options))
        return {"id": job["id"], "token": token}

    def states(self, *jobs):
        return {job["token"]: job for job in self.call("states", jobs=list(jobs))["jobs"]}

    def ended(self, *jobs, seconds=60):
        """Waits until jobs are over, and returns how."""
        def all_over():
            found = self.states(*jobs)
            return len(found) == len(jobs) and all(job["state"] in OVER for job in found.values()) and found
        found = wait_for(f"the end of {[job['token'] for job in jobs]}", all_over, seconds)
        return [(found[job["token"]]["state"], found[job["token"]]["exit"]) for job in jobs]

    def is_running(self, job):
        return bool(self.noted(job, "start")) and self.states(job)[job["token"]]["state"] == "running"

    def noted(self, job, word):
        return [line for line in self.all_noted() if line["token"] == job["token"] and line["word"] == word]

    def all_noted(self):
        return [json.loads(line) for line in self.lines.read_text().splitlines()] if self.lines.exists() else []

    def once(self, *jobs):
        for job in jobs:
            count = [len(self.noted(job, word)) for word in ("start", "end", "term")]
            assert count == [1, 1, 0], f"{job['token']}: {count} starts, ends, and terms"


def answers_by_the_protocol(case):
    good, bad = case.submit(0.2), case.submit(0, 7)
    assert case.ended(good, bad) == [("done", 0), ("failed", 7)]
    case.once(good, bad)
    assert f"this is {good['token']}" in case.call("logs", id=good["id"])
    assert {good["token"], bad["token"]} <= set(case.states())
    stranger = {"id": None, "token": "ar-nobody"}
    assert case.states(stranger) == {}
    case.call("cancel", jobs=[good, stranger])
    assert case.ended(good) == [("done", 0)]


def refuses_what_it_does_not_know(case):
    bad = (("states", b'{"version":2,"jobs":[]}'), ("states", b"nonsense"), ("unknown", b"{}"), ("logs", b""))
    for verb, text in bad:
        process = case.start(verb)
        out, _ = process.communicate(text, LIMIT)
        assert process.returncode and not out, (verb, text, out)
    try:
        case.call("logs", id="ar-nobody")
    except NoAnswer:
        return
    raise AssertionError("logs of a job that is not known")


def leaves_odd_characters_alone(case):
    folder = case.folder / "a folder's $PATH = \"ü\" `true` \\ {x}\nline"
    folder.mkdir()
    python = folder / "python"
    python.symlink_to(sys.executable)
    env = {"ODD": "' \" $HOME ${HOME} ${NONE} $(true) `true` \\ \n\t ü € * ~ ! # & ; | < > { } % =", "ODD_EMPTY": "",
           "ODD_LONG": "x" * 50000}
    job = case.submit(env=env, cwd=folder, python=python)
    assert case.ended(job) == [("done", 0)], case.call("logs", id=job["id"])
    [start] = case.noted(job, "start")
    assert start["cwd"] == str(folder) and start["env"] == env, start


def submits_a_token_once(case):
    token = case.token()
    job = {"id": None, "token": token}
    calls = [case.start("submit") for _ in range(3)]
    text = json.dumps({"version": 1, **case.job(token, 0.5)}).encode()
    threads = [threading.Thread(target=call.communicate, args=(text, LIMIT)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert any(call.returncode == 0 for call in calls)
    first = case.call("submit", **case.job(token, 0.5))
    assert case.ended(job) == [("done", 0)]
    assert case.call("submit", **case.job(token, 0.5)) == first
    case.once(job)


def cancels(case):
    running = [case.submit(60) for _ in range(case.engine.slots)]
    wait_for("that the slots are full", lambda: all(map(case.is_running, running)))
    pending = case.submit(60)
    assert case.states(pending)[pending["token"]]["state"] == "pending"
    # A token is enough.
    case.call("cancel", jobs=[{"id": None, "token": pending["token"]}, running[0]])
    wait_for("that TERM reaches the job", lambda: case.noted(running[0], "term"), 15)
    case.call("cancel", jobs=[running[0], *running[1:]])
    assert {state for state, _ in case.ended(pending, *running)} == {"cancelled"}
    assert all(case.noted(job, "term") for job in running) and not case.noted(pending, "start")


def finds_what_a_killed_submit_left(case):
    jobs, left = [], 0
    for number in range(12):
        job = {"id": None, "token": case.token()}
        call = case.start("submit")
        try:
            call.stdin.write(json.dumps({"version": 1, **case.job(job["token"], 0.1)}).encode())
            call.stdin.close()
        except OSError:
            pass
        time.sleep(random.uniform(0, 0.6))
        os.killpg(call.pid, signal.SIGKILL)
        call.wait()
        found = job["token"] in case.states()
        left += found
        if not found or number % 2:
            case.call("submit", **case.job(job["token"], 0.1))
        jobs.append(job)
    assert {state for state, _ in case.ended(*jobs)} == {"done"}
    case.once(*jobs)
    print(f"    {left} of 12 killed submits had taken effect")


def keeps_states_while_the_engine_is_away(case):
    job = case.submit(4)
    wait_for("that it runs", lambda: case.is_running(job))
    case.engine.away()
    try:
        until, meanwhile = time.monotonic() + 6, set()
        while time.monotonic() < until:
            try:
                meanwhile |= {each["state"] for each in case.states(job).values()}
            except NoAnswer:
                meanwhile.add("no answer")
            time.sleep(0.2)
        submitted = {"id": None, "token": case.token()}
        try:
            case.call("submit", **case.job(submitted["token"]))
        except NoAnswer:
            pass
    finally:
        case.engine.back()
    if submitted["token"] not in case.states():
        case.call("submit", **case.job(submitted["token"]))
    assert meanwhile <= {"no answer", "running", "done"}, meanwhile
    assert case.ended(job, submitted) == [("done", 0)] * 2
    case.once(job, submitted)
    print(f"    meanwhile: {', '.join(sorted(meanwhile))}")


def fails_to_cancel_while_the_engine_is_away(case):
    job = case.submit(60)
    wait_for("that it runs", lambda: case.is_running(job))
    case.engine.away()
    try:
        case.call("cancel", jobs=[job])
        raise AssertionError("a job was cancelled on a machine that is away")
    except NoAnswer:
        pass
    finally:
        case.engine.back()
    case.call("cancel", jobs=[job])
    assert case.ended(job)[0][0] == "cancelled"
    assert case.noted(job, "term")


def executes_each_job_once_on_few_slots(case):
    tokens = [case.token() for _ in range(20)]
    jobs = [{"id": None, "token": token} for token in tokens]
    failures = []

    def submit(mine):
        try:
            for token in mine:
                case.call("submit", **case.job(token, random.uniform(0.5, 1.5)))
            case.ended(*jobs, seconds=180)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=submit, args=(tokens[number::2],)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    case.once(*jobs)
    lines = [line for line in case.all_noted() if line["token"] in tokens]
    at_once, most = 0, 0
    for line in sorted(lines, key=lambda line: line["at"]):
        at_once += 1 if line["word"] == "start" else -1
        most = max(most, at_once)
    assert most <= case.engine.slots, f"{most} at once"
    print(f"    at most {most} at once")


def keeps_states_while_one_host_is_away(case):
    jobs = [case.submit(10) for _ in range(3)]
    wait_for("that the slots are full", lambda: all(map(case.is_running, jobs)))
    second = list(case.engine.hosts)[1]
    on_second = [job for job in jobs if (case.engine.state / job["token"] / "claim").read_text().split()[0] == second]
    assert len(on_second) == 1
    case.engine.away([second])
    try:
        elsewhere = [case.submit(0.1) for _ in range(2)]
        wait_for("the end of the others", lambda: all(case.noted(job, "end") for job in jobs))
        others = [job for job in jobs if job not in on_second]
        assert {state for state, _ in case.ended(*others, *elsewhere)} == {"done"}
    finally:
        case.engine.back([second])
    assert case.ended(*jobs) == [("done", 0)] * 3
    case.once(*jobs, *elsewhere)


def knows_what_is_lost(case):
    killed, orphan, other_boot, reused = jobs = [case.submit(30), case.submit(10), case.submit(30), case.submit(30)]
    wait_for("that the slots are full", lambda: all(map(case.is_running, jobs[:3])))
    claims = {job["token"]: case.engine.state / job["token"] / "claim" for job in jobs}

    def claim(job, place=None, word=None):
        words = claims[job["token"]].read_text().split()
        if word:
            words[place] = word
            claims[job["token"]].write_text(" ".join(words) + "\n")
        return words

    def pid(job):
        return case.noted(job, "start")[0]["pid"]

    # Without the process that waits for it, a job still runs.
    os.kill(int(claim(orphan)[2]), signal.SIGKILL)
    assert case.is_running(orphan), case.states(orphan)
    # As if the machine had been started again.
    claim(other_boot, 1, "00000000-0000-0000-0000-000000000000")
    assert case.ended(other_boot) == [("lost", None)]
    os.kill(int(claim(killed)[2]), signal.SIGKILL)
    os.kill(pid(killed), signal.SIGKILL)
    assert case.ended(killed, orphan) == [("lost", None)] * 2
    assert case.noted(orphan, "end")
    # As if another process had its number by now.
    wait_for("that it runs", lambda: case.is_running(reused))
    os.kill(int(claim(reused)[2]), signal.SIGKILL)
    claim(reused, 2, str(os.getpid()))
    os.kill(pid(reused), signal.SIGKILL)
    assert case.ended(reused) == [("lost", None)]
    os.kill(pid(other_boot), signal.SIGTERM)


def gives_each_slot_its_gpus(case):
    host = list(case.engine.hosts)[0]
    seen = case.folder / "gpus"
    case.environment["AR_HOSTS"] = f"# two slots\n{host}:gpus=GPU-5+1,2"
    try:
        jobs = []
        for _ in range(2):
            token = case.token()
            command = ["sh", "-c", 'echo "$CUDA_VISIBLE_DEVICES" >>"$1"; sleep 5', "sh", str(seen)]
            case.call("submit", **{**case.job(token), "command": command, "env": {"CUDA_VISIBLE_DEVICES": "7"}})
            jobs.append({"id": None, "token": token})
        assert case.ended(*jobs) == [("done", 0)] * 2
        assert sorted(seen.read_text().split()) == ["2", "GPU-5,1"], seen.read_text()
    finally:
        case.environment.update(case.engine.environment)


def forgets_what_is_over_since_long(case):
    old, young = case.submit(), case.submit()
    case.ended(old, young)
    os.utime(case.engine.state / old["token"], (0, 0))
    case.ended(case.submit())
    assert old["token"] not in case.states() and young["token"] in case.states()


def has_no_answer_without_its_folder(case):
    case.environment["AR_SSH_STATE"] = str(case.folder / "not mounted")
    try:
        for verb, request in (("states", {"jobs": []}), ("submit", case.job(case.token()))):
            try:
                case.call(verb, **request)
                raise AssertionError(f"{verb} answers without its folder")
            except NoAnswer:
                pass
        assert not (case.folder / "not mounted").exists()
    finally:
        case.environment.update(case.engine.environment)


def above(pid):
    """The processes above one, the nearest first."""
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        yield pid


def ends_what_ray_has_lost(case):
    job = case.submit(60)
    wait_for("that it runs", lambda: case.is_running(job))
    [start] = case.noted(job, "start")
    supervisors = (pid for pid in above(start["pid"]) if b"JobSupervisor" in Path(f"/proc/{pid}/cmdline").read_bytes())
    os.kill(next(supervisors), signal.SIGKILL)
    assert case.ended(job) == [("lost", None)]
    wait_for("that it ends", lambda: case.noted(job, "term"), 15)


def knows_no_job_after_a_new_start(case):
    job = case.submit(60)
    wait_for("that it runs", lambda: case.is_running(job))
    case.engine.stop_head()
    case.engine.start_head()
    assert case.states() == {} == case.states(job)
    wait_for("that it ends", lambda: case.noted(job, "term"), 15)


TESTS = [answers_by_the_protocol, refuses_what_it_does_not_know, leaves_odd_characters_alone, submits_a_token_once,
         cancels, finds_what_a_killed_submit_left, keeps_states_while_the_engine_is_away,
         fails_to_cancel_while_the_engine_is_away, executes_each_job_once_on_few_slots]
OF_ONE = {
    "ssh": [keeps_states_while_one_host_is_away, knows_what_is_lost, gives_each_slot_its_gpus,
            forgets_what_is_over_since_long, has_no_answer_without_its_folder],
    "ray": [ends_what_ray_has_lost, knows_no_job_after_a_new_start],
}


def main():
    passed, failed, skipped = 0, 0, 0
    for name in sys.argv[1:] or list(ENGINES):
        with tempfile.TemporaryDirectory(prefix=f"ar-{name}-") as folder:
            tests = TESTS + OF_ONE[name]
            try:
                engine = ENGINES[name](Path(folder) / "engine")
            except Skipped as why:
                print(f"SKIPPED {name}: {why}")
                skipped += len(tests)
                continue
            try:
                case = Case(engine, Path(folder))
                for test in tests:
                    begun = time.monotonic()
                    try:
                        test(case)
                        passed, word = passed + 1, "ok"
                    except Exception:
                        traceback.print_exc()
                        failed, word = failed + 1, "FAILED"
                        # What it left would hold the slots of the next one.
                        case.call("cancel", jobs=[{"id": None, "token": token} for token in case.states()])
                    print(f"{word} {name}: {test.__name__} ({time.monotonic() - begun:.1f} s)", flush=True)
                left = [job for job in case.states().values() if job["state"] not in OVER]
                assert not left, left
            finally:
                engine.end()
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
