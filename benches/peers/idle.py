"""What `ar` takes while an experiment trains, and over a night of 1,000 experiments.

While a command sleeps, wake-ups and processor time are those of `ar run` and of the shim that watches over the command together,
all threads, as the kernel counts them: voluntary context switches, and nanoseconds on a processor. The count begins when the
command has just started, when the shim looks often. Memory is that of `ar run` at its largest in a session of 1,000 experiments
whose agent and command take no time; the pages of the program itself, which the shim shares, are counted in.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path

import repositories
from frame import ENVIRONMENT, Row, Unequal

HERE = Path(__file__).resolve().parent


def started(context, folder, train, agent, experiments):
    """A session that goes on, in a new repository of ten files."""
    shutil.rmtree(folder, ignore_errors=True)
    repositories.make(folder, 10)
    command = [context.ar, "run", "--yes", "--tag", "bench", "--metric", "val_bpb", "--cmd", train, "--agent", agent,
               "--max-experiments", str(experiments)]
    with open(context.folder / "said", "w") as said:
        return subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=said, stderr=subprocess.STDOUT)


def threads(pid, read):
    """What `read` makes of each thread of a process. A thread that ends meanwhile is left out."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            yield read(thread)
        except (FileNotFoundError, ProcessLookupError):
            continue


def children(pid):
    texts = threads(pid, lambda thread: (thread / "children").read_text())
    return [int(child) for text in texts for child in text.split()]


def field(pid, name):
    """A number of /proc/PID/status."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))


def used(pids):
    """How often the threads of some processes went to sleep, and how many nanoseconds they ran."""
    def of(thread):
        slept = field(f"{thread.parent.parent.name}/task/{thread.name}", "voluntary_ctxt_switches")
        return slept, int((thread / "schedstat").read_text().split()[0])

    found = [each for pid in pids for each in threads(pid, of)]
    return sum(slept for slept, _ in found), sum(ran for _, ran in found)


def waiting(context, seconds):
    """Wake-ups a second and percent of a core while a command sleeps, and the resident MB of all processes at most."""
    folder = context.folder / "waiting"
    loop = started(context, folder, f"sleep {seconds + 2}; echo val_bpb: 1", "true", 0)
    begun = time.monotonic()
    while not (folder / ".autoresearch/bench/runs/00000/run.log").exists() or not children(loop.pid):
        if loop.poll() is not None or time.monotonic() - begun > 60:
            raise SystemExit("idle: the run does not start:\n" + (context.folder / "said").read_text())
        time.sleep(0.002)
    both = [loop.pid, *children(loop.pid)]
    begun, (wakes, ran) = time.monotonic(), used(both)
    time.sleep(seconds)
    wakes_after, ran_after = used(both)
    elapsed = time.monotonic() - begun
    resident = sum(field(pid, "VmHWM") for pid in both) * 1024 / 1e6
    if loop.wait() != 0 or len(both) != 2:
        raise Unequal("`ar run` and one shim were to wait for the command")
    return (wakes_after - wakes) / elapsed, (ran_after - ran) / elapsed / 1e7, resident


def night(context, experiments):
    """Resident MB by number of experiments, and the largest of all."""
    folder, stamps, tool = context.folder / "night", context.folder / "stamps", context.folder / "tool"
    loop = started(context, folder, f"{tool} train {stamps}", f"{tool} agent {stamps}", experiments)
    resident, largest = {}, 0
    while loop.poll() is None:
        try:
            done = (folder / "results.tsv").read_text().count("\n") - 2
            resident[done] = field(loop.pid, "VmRSS") * 1024 / 1e6
            largest = max(largest, field(loop.pid, "VmHWM") * 1024 / 1e6)
        except (FileNotFoundError, ProcessLookupError, StopIteration):
            pass
        time.sleep(0.05)
    rows = (folder / "results.tsv").read_text().count("\n") - 2
    if loop.returncode != 0 or rows != experiments:
        raise Unequal(f"{rows} experiments of {experiments}")
    return resident, largest


def rows(context):
    if not os.path.exists("/proc/self/schedstat") or not os.path.exists("/proc/thread-self/children"):
        context.skip("`ar` while an experiment trains", "the system does not count wake-ups")
        return
    subprocess.run(["cc", "-O2", "-o", context.folder / "tool", HERE / "tool.c"], check=True)
    rounds, seconds, experiments = (1, 3, 20) if context.short else (3, 30, 1000)
    waits = [waiting(context, seconds) for _ in range(rounds)]
    wakes, percent, together = map(list, zip(*waits))
    note = f"`ar` and its shim together, over the first {seconds} s of a command"
    yield Row("wake-ups while an experiment trains", wakes, [], "", "wake-ups/s", 2, note)
    yield Row("processor while an experiment trains", percent, [], "", "% of a core", 0.1, note)
    resident, largest = night(context, experiments)
    note = f"`ar run` and its shim together while a command sleeps: {max(together):.1f} MB"
    yield Row(f"resident memory over {experiments:,} experiments", [largest], [], "", "MB", 25, note)
    steps = [step for step in (10, 20, 100, 200, 500, 1000) if step <= experiments]
    near = {step: resident[min(resident, key=lambda done: abs(done - step))] for step in steps}
    early, late = (10, 20) if context.short else (100, 1000)
    yield Row(f"resident memory after {late:,} experiments against after {early}", [near[late]], [near[early]],
              f"after {early}", "MB", 1.0, "what grows are the records of the session, some 2 KB each, and what is held of "
              "refs, rows and event logs, to put them back")
    context.growth("Resident memory of `ar run` by number of experiments, MB", ["experiments", "MB"],
                   [[f"{step:,}", f"{near[step]:.1f}"] for step in steps])
