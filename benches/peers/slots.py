"""How busy slots are, and what several of them cost.

Agent and command only sleep and say when (`slots.c`), so that two cores are enough for eight slots. Of five ideas one is good, and
gains add up: with several slots a keep needs a run more, that of its train, which several winners may share. The busy share is
the seconds of all runs over the time from the start of the first one to the end of the last one; that `ar report` says the same is
checked. Rates are those from the first experiment's start to the end of the last call, while there is enough to do: runs per hour
are their seconds in that time over the length of a run; experiments per hour are runs per hour over runs per experiment. Ideal
is what slots without a gap would give. That each session recorded all its experiments, kept all good ideas, and left the user's
working tree alone, is checked.

Processor time is that of the process `ar run`, as the kernel counts it, from the fifth experiment on. Wake-ups are counted while
the baseline runs on all slots.
"""

import json
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import repositories
from frame import ENVIRONMENT, Row, Unequal, called
from idle import children, field, used
from repositories import git

HERE = Path(__file__).resolve().parent
IN_PLACE = "in place"
# Times the first slot's rate: of runs, and of experiments with one keep in five, beside what is ideal.
RATES = {2: (1.95, 1.85, 1.91), 4: (3.9, 3.45, 3.56), 8: (7.6, 6.9, 7.14)}


@dataclass
class Night:
    """One session over: when its agents and runs were at work, in seconds, and what `ar run` took."""

    experiments: int
    baseline: list
    agent: list
    train: list
    reported: float
    samples: list
    resident: float

    def share(self, slots):
        """The share of the time in which the slots had a run."""
        runs = self.baseline + self.train
        begun, ended = min(begun for begun, *_ in runs), max(ended for _, ended, _ in runs)
        return sum(ended - begun for begun, ended, _ in runs) / slots / (ended - begun)

    def runs_per_hour(self):
        begun, ended = min(begun for begun, *_ in self.train), max(ended for _, ended, _ in self.agent)
        within = sum(max(0, min(ended, each[1]) - max(begun, each[0])) for each in self.train)
        return within / self.run_seconds() / (ended - begun) * 3600

    def experiments_per_hour(self):
        return self.runs_per_hour() * self.experiments / len(self.train)

    def run_seconds(self):
        return statistics.mean(ended - begun for begun, ended, _ in self.train)

    def gaps(self):
        """Milliseconds between one run and the next one of a slot."""
        slots = {}
        for begun, ended, slot in sorted(self.train):
            slots.setdefault(slot, []).append((begun, ended))
        return [(after - before) * 1e3 for runs in slots.values() for (_, before), (after, _) in zip(runs, runs[1:])]

    def processor(self):
        """Milliseconds of a processor per experiment: of `ar run`, and with all that it started."""
        (early, *before), (late, *after) = next(it for it in self.samples if it[0] >= min(5, self.experiments // 2)), self.samples[-1]
        return [(b - a) * 1e3 / (late - early) for a, b in zip(before, after)]


def ticks(pid):
    """Seconds that a process ran, and those with its children that are over."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    own, with_children = sum(map(int, fields[11:13])), sum(map(int, fields[11:15]))
    return [seconds / 100 for seconds in (own, with_children)]


def started(context, layout, train, agent, experiments):
    # What a former night left is not deleted yet: for minutes ext4 searches longer for where a new file may stand.
    folder = Path(tempfile.mkdtemp(dir=context.folder)) / "work"
    repositories.make(folder, 10)
    command = [context.ar, "run", "--yes", "--tag", "bench", "--metric", "loss", "--lower", "--cmd", train, "--agent", agent,
               "--max-experiments", experiments, *layout]
    with open(context.folder / "said", "w") as said:
        return folder, subprocess.Popen(list(map(str, command)), cwd=folder, env=ENVIRONMENT, stdout=said, stderr=subprocess.STDOUT)


def night(context, layout, run, call, experiments):
    """Runs one session."""
    stamps, tool = context.folder / "stamps", context.folder / "slots"
    for old in context.folder.glob("stamps*"):
        old.unlink()
    folder, loop = started(context, layout, f"{tool} train {stamps} {run}", f"{tool} agent {stamps} {call}", experiments)
    samples, resident = [], 0
    while loop.poll() is None:
        try:
            done = (folder / "results.tsv").read_text().count("\n") - 2
            samples.append((done, *ticks(loop.pid)))
            resident = max(resident, field(loop.pid, "VmHWM") * 1024 / 1e6)
        except (FileNotFoundError, ProcessLookupError, StopIteration):
            pass
        time.sleep(0.05)
    if loop.returncode:
        raise SystemExit(f"ar run failed with {loop.returncode}: {(context.folder / 'said').read_text()[-2000:]}")
    at_work = {"agent": [], "train": [], "baseline": []}
    for line in stamps.read_text().splitlines():
        what, begun, ended, slot = line.split()
        at_work[what].append((int(begun) / 1e9, int(ended) / 1e9, int(slot)))
    report = json.loads(called([context.ar, "report", "--format", "json", "--tag", "bench"], folder))
    done = Night(experiments, **at_work, reported=report["slots"]["busy_share"], samples=samples, resident=resident)
    check(folder, layout, done)
    return done


def check(folder, layout, done):
    """That a session did what it was to do."""
    rows = [row.split("\t")[3:] for row in (folder / "results.tsv").read_text().splitlines()[2:]]
    wrong = [row for row in rows if (row[0] == "improved") != row[1].startswith("ideas/good")]
    keeps = sum(status == "improved" for status, *_ in rows)
    if wrong or len(rows) != done.experiments or abs(keeps / len(rows) - 0.2) > 0.1:
        raise Unequal(f"{layout}: {len(rows)} experiments of {done.experiments}, {keeps} keeps; {wrong}")
    if int(git(folder, "rev-list", "--count", "main..autoresearch/bench")) != keeps:
        raise Unequal(f"{layout}: the branch does not hold the keeps")
    if git(folder, "status", "--porcelain"):
        raise Unequal(f"{layout}: the working tree was touched")
    slots = int(layout[1]) if layout else 1
    # A shim's own start counts as a run's time in the report.
    if abs(done.share(slots) - done.reported) > 0.01 + 0.03 / done.run_seconds():
        raise Unequal(f"{layout}: slots were busy {done.share(slots):.3f} of the time, and the report says {done.reported:.3f}")
    git(folder, "fsck", "--strict")


def waking(context, slots, seconds):
    """Wake-ups a second while runs sleep on all slots: of `ar run`, and with its shims."""
    _, loop = started(context, ["--slots", slots], f"sleep {seconds + 4}; echo loss: 1", "true", 0)
    begun = time.monotonic()
    while len(children(loop.pid)) < slots:
        if loop.poll() is not None or time.monotonic() - begun > 60:
            raise SystemExit("slots: the runs do not start:\n" + (context.folder / "said").read_text())
        time.sleep(0.002)
    time.sleep(1)
    both = [[loop.pid], [loop.pid, *children(loop.pid)]]
    begun, before = time.monotonic(), [used(pids)[0] for pids in both]
    time.sleep(seconds)
    after = [used(pids)[0] for pids in both]
    elapsed = time.monotonic() - begun
    if loop.wait() != 0:
        raise SystemExit("slots: " + (context.folder / "said").read_text())
    return [(b - a) / elapsed for a, b in zip(before, after)]


def rows(context):
    if not Path("/proc/thread-self/children").exists():
        context.skip("slots", "the system does not name a process's children")
        return
    subprocess.run(["cc", "-O2", "-o", context.folder / "slots", HERE / "slots.c"], check=True)
    run, call, experiments = (0.3, 0.1, 10) if context.short else (3, 0.9, 40)
    told = f"agent {call} s, run {run} s, one keep in five"
    in_place = night(context, [], run, call, experiments)
    one = night(context, ["--slots", 1, "--ahead", 1], run, call, experiments)
    yield Row(f"busy share of a slot over {experiments} experiments, {told}, `--slots 1 --ahead 1`", [one.share(1) * 100], [], "",
              "%", 97, f"{IN_PLACE}: {in_place.share(1) * 100:.1f} %", least=True)
    run, call, experiments = (0.3, 0.1, 10) if context.short else (10, 3, 15)
    told = f"agent {call} s, run {run} s, one keep in five"
    one = night(context, ["--slots", 1, "--ahead", 1], run, call, experiments)
    growth = [table_row(1, one)]
    for slots, (runs, kept, ideal) in RATES.items():
        if context.short and slots != 4:
            continue
        many = night(context, ["--slots", slots, "--calls", slots], run, call, experiments if context.short else 12 * slots)
        growth.append(table_row(slots, many))
        yield Row(f"runs that end on {slots} slots", [many.runs_per_hour()], [one.runs_per_hour()], "one slot", "per hour", runs,
                  least=True)
        yield Row(f"experiments on {slots} slots", [many.experiments_per_hour()], [one.experiments_per_hour()], "one slot",
                  "per hour", kept, f"{told}; ideal: {ideal}", least=True)
    context.growth(f"Slots by their number: {told}",
                   ["slots", "busy share", "runs per hour", "experiments per hour", "runs per experiment",
                    "between two runs of a slot, median"], growth)
    yield from costs(context)


def costs(context):
    """What eight slots cost beside the working tree in place."""
    run, call, rounds = (0.3, 0.1, 1) if context.short else (1, 0.2, 3)
    figures = {IN_PLACE: [], "8 slots": []}
    resident = []
    for _ in range(rounds):
        for name, layout in ((IN_PLACE, []), ("8 slots", ["--slots", 8, "--calls", 8])):
            done = night(context, layout, run, call, 20 if context.short else 40)
            figures[name].append(done.processor())
            if layout:
                resident.append(done.resident)
    ours, theirs = ([own for own, _ in figures[name]] for name in ("8 slots", IN_PLACE))
    yield Row("processor time of `ar` per experiment on 8 slots, 10 files", ours, theirs, IN_PLACE, "ms", 1.5,
              f"a run takes {run} s, a call {call} s, and both only sleep")
    ours, theirs = ([every for _, every in figures[name]] for name in ("8 slots", IN_PLACE))
    yield Row("the same with shims, agents and runs", ours, theirs, IN_PLACE, "ms", 1.5)
    yield Row("resident memory of `ar` with 8 slots", resident, [], "", "MB", 40)
    own, together = waking(context, 8, 3 if context.short else 30)
    yield Row("wake-ups of `ar` while runs sleep on 8 slots", [own], [], "", "wake-ups/s", 6,
              f"2 a second and 0.5 for each slot; with the 8 shims {together:.1f} a second")


def table_row(slots, done):
    return [str(slots), f"{done.share(slots) * 100:.1f} %", f"{done.runs_per_hour():.0f}", f"{done.experiments_per_hour():.0f}",
            f"{len(done.train) / done.experiments:.2f}", f"{statistics.median(done.gaps()):.0f} ms"]
