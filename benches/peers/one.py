"""One experiment by itself, and one late in a long session.

An agent that drives by itself calls `ar try` for each experiment: a process that finds the session, commits, runs, reads the
number, records, and puts the tree back. The peer is `protocol.sh one`, the same steps by a shell. Timed is the whole process, less
the time in which the command was at work; the change is made before, and what that left to be written is on the disk. That both
made the same commits, rows and numbers is checked.

Late in a session an experiment is to cost what it costs early: that is the overhead in the loop (see there), in one session, the
median over some experiments around the 500th against that around the tenth and those after it.
"""

import statistics
import subprocess

import loop
import repositories
from frame import Row, Unequal, alternate, called, timed
from loop import HERE, OURS, SHELL

TRY, STEPS = "ar try", "the shell protocol's steps"


class Side:
    """A copy of a repository in which one experiment after the other is made, a process for each."""

    def __init__(self, context, source, name):
        self.ar, self.name, self.folder = context.ar, name, context.folder / name
        self.tool, self.stamps = context.folder / "tool", context.folder / f"stamps of {name}"
        self.train = f"{self.tool} train '{self.stamps}'"
        repositories.copy(source, self.folder)
        self.stamps.unlink(missing_ok=True)
        if name == TRY:
            self.change()
            called([context.ar, "try", "-m", "one", "--tag", "bench", "--metric", "val_bpb", "--cmd", self.train], self.folder)
        else:
            called(["sh", HERE / "protocol.sh", "loop", f"{self.tool} agent '{self.stamps}'", self.train, 1], self.folder)

    def change(self):
        called([self.tool, "agent", self.stamps], self.folder)

    def experiment(self):
        """Milliseconds of one experiment in which the command was not at work."""
        self.change()
        subprocess.run(["sync"], check=True)
        best = min(float(value) for _, value, _ in loop.rows_of(self.folder))
        shell = ["sh", HERE / "protocol.sh", "one", self.train, best]
        seconds, _ = timed([self.ar, "try", "-m", "one"] if self.name == TRY else shell, self.folder)
        what, begun, ended = self.stamps.read_text().splitlines()[-1].split()
        if what != "train":
            raise Unequal(f"{self.name} did not run the command")
        return seconds * 1e3 - (int(ended) - int(begun)) / 1e6


def in_turn(context, files, rounds):
    """Milliseconds per experiment of `ar try` and of the shell, by turns."""
    source = context.folder / f"files{files}"
    repositories.make(source, files)
    sides = [Side(context, source, name) for name in (TRY, SHELL)]
    figures = alternate(rounds, *[side.experiment for side in sides])
    left = [loop.left_by(side.folder) for side in sides]
    if left[0] != left[1]:
        raise Unequal(f"{files} files: {left}")
    return figures


def late_and_early(context, kind, source, windows):
    """The overhead of an experiment late in a session and early in one, in milliseconds: medians over two windows."""
    loop.copies(context, source)
    overheads = loop.night(context, kind, windows[-1][1] + 1)[0].overheads()
    return [statistics.median(overheads[first:last]) for first, last in reversed(windows)]


def rows(context):
    subprocess.run(["cc", "-O2", "-o", context.folder / "tool", HERE / "tool.c"], check=True)
    growth = []
    for files in [10, 100] if context.short else [10, 100, 1_000, 10_000]:
        ours, theirs = in_turn(context, files, 2 if context.short else 25)
        growth.append([f"{files:,}", *[f"{statistics.median(side):.1f}" for side in (ours, theirs)]])
        if files == 10:
            yield Row("one `ar try`, 10 files", ours, theirs, STEPS, "ms", 1.0,
                      "the peer syncs nothing, writes no record, and is told the best number so far")
    context.growth("One experiment as a process of its own by number of files, ms", ["files", TRY, STEPS], growth)
    windows = [(2, 5), (5, 8)] if context.short else [(10, 50), (480, 520)]
    source = context.folder / "files10"
    growth = []
    for kind, rounds in [(SHELL, 1), (OURS, 1 if context.short else 5)]:
        late, early = zip(*[late_and_early(context, kind, source, windows) for _ in range(rounds)])
        growth.append([kind, *[f"{statistics.median(side):.1f}" for side in (early, late)]])
    yield Row("experiment 500 of a session against experiment 10", list(late), list(early), "experiment 10", "ms", 1.05)
    context.growth("Overhead of an experiment early and late in a session, 10 files, ms",
                   ["", *[f"experiments {first} to {last}" for first, last in windows]], growth)
