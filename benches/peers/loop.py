"""What the loop costs around an agent and a training command.

Agent and command are the same small C program on both sides (`tool.c`), which says when it was at work: the overhead of an
experiment is the time from one start of the agent to the next, less the time in which agent and command were at work. The peer
is the protocol as people give it to an agent in prose (`protocol.sh`): `git commit -qam`, `grep | tail`, `echo >>`, and
`git reset -q --hard` unless the number got better, which every fifth does. `ar` runs as people run it, with every fsync on, and,
since the peer builds none, once more without walls around agent and command. That all made the same commits, rows and numbers is checked, `git fsck` included.
"""

import statistics
import subprocess
import time
from pathlib import Path

import repositories
from frame import Row, Unequal, called
from repositories import git

HERE = Path(__file__).resolve().parent
SHELL, SYNCED, OURS = "the shell protocol", "the shell protocol, core.fsync=all", "ar run"
WITHOUT_WALLS = "ar run --sandbox off"
KINDS = [SYNCED, SHELL, OURS, WITHOUT_WALLS]


class Night:
    """One session's stamps: when agent and command began and ended, in nanoseconds."""

    def __init__(self, stamps: Path):
        at_work = {"agent": [], "train": []}
        for line in stamps.read_text().splitlines():
            what, begun, ended = line.split()
            at_work[what].append((int(begun), int(ended)))
        self.agent, self.train = at_work["agent"], at_work["train"][1:]

    def overheads(self):
        """Milliseconds of each experiment but the last in which neither agent nor command was at work."""
        begins = [begun for begun, _ in self.agent]
        return [(after - before - sum(ended - begun for begun, ended in work)) / 1e6
                for before, after, *work in zip(begins, begins[1:], self.agent, self.train)]

    def between(self):
        """Milliseconds from the end of each run to the next start of the agent."""
        return [(begun - ended) / 1e6 for (begun, _), (_, ended) in zip(self.agent[1:], self.train)]


def night(context, kind, experiments):
    """Runs one session in the copy of the repository that this side has (`copies`); gives its stamps, and what it left."""
    folder = folder_of(context, kind)
    stamps = context.folder / "stamps"
    stamps.unlink(missing_ok=True)
    tool = context.folder / "tool"
    agent, train = f"{tool} agent {stamps}", f"{tool} train {stamps}"
    if kind in (OURS, WITHOUT_WALLS):
        walls = "auto" if kind == OURS else "off"
        called([context.ar, "run", "--yes", "--tag", "bench", "--metric", "val_bpb", "--cmd", train, "--agent", agent,
                "--max-experiments", experiments, "--sandbox", walls], folder)
    else:
        if kind == SYNCED:
            git(folder, "config", "core.fsync", "all")
        called(["sh", HERE / "protocol.sh", "loop", agent, train, experiments], folder)
    return Night(stamps), left_by(folder)


def folder_of(context, kind):
    return context.folder / f"work{KINDS.index(kind)}"


def copies(context, source):
    """A new copy for each side. Before the first session they are older than the few seconds within which the times of a
    folder, or a file, say nothing about a further change."""
    for kind in KINDS:
        repositories.copy(source, folder_of(context, kind))
    subprocess.run(["sync"], check=True)
    time.sleep(0 if context.short else 4)


def rows_of(folder):
    """Status and numbers of each row of results.tsv."""
    rows = [line.split("\t") for line in (folder / "results.tsv").read_text().splitlines()]
    words = {"improved": "keep", "rejected": "discard"}
    return [(words.get(status, status), value, memory) for _, value, memory, status, *_ in rows if value != "val_bpb"]


def left_by(folder):
    """What a session left: trees of the kept commits, rows, and what git finds changed, which is nothing."""
    git(folder, "fsck", "--strict")
    return git(folder, "log", "--format=%T").split(), rows_of(folder), git(folder, "status", "--porcelain", "-uno")


def rows(context):
    subprocess.run(["cc", "-O2", "-o", context.folder / "tool", HERE / "tool.c"], check=True)
    sizes = [10, 100] if context.short else [10, 100, 1_000, 10_000, 100_000]
    held = {10: (1.2, 1.5), 100: (1.2, 1.5), 10_000: (1.0, 1.05), 100_000: (1.0, 1.05)}
    growth = []
    for files in sizes:
        source = context.folder / f"files{files}"
        repositories.make(source, files)
        experiments, rounds = (6, 1) if context.short else (20, 5) if files <= 10_000 else (12, 3)
        figures = {kind: [] for kind in KINDS}
        gaps = []
        for number in range(rounds):
            left = {}
            copies(context, source)
            for kind in KINDS[number % len(KINDS):] + KINDS[:number % len(KINDS)]:
                stamps, left[kind] = night(context, kind, experiments)
                figures[kind].append(statistics.median(stamps.overheads()))
                if kind == WITHOUT_WALLS:
                    gaps.append(statistics.median(stamps.between()))
            if any(one != left[OURS] for one in left.values()):
                raise Unequal(f"{files} files: {left}")
        growth.append([f"{files:,}"] + [f"{statistics.median(each):.1f}" for each in (*figures.values(), gaps)])
        if files in held and (context.short or files != 100):
            for peer, target in zip((SYNCED, SHELL), held[files]):
                yield Row(f"overhead per experiment without walls, {files:,} files", figures[WITHOUT_WALLS], figures[peer], peer,
                          "ms", target)
        if files == 10_000 or context.short:
            yield Row(f"from the end of a run to the start of the next agent, {files:,} files", gaps, [], "", "ms", 30)
    context.growth("Overhead per experiment by number of files, ms",
                   ["files", SYNCED, SHELL, OURS, WITHOUT_WALLS, "of it from the run's end to the next agent"], growth)
