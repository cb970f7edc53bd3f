"""What reading a log costs.

`ar extract` says what a session would read out of a log: the metric's last number, memory, every number of the last lines. The
peers are `grep -a '^val_bpb:' FILE | tail -1` and the same with ripgrep, which say the metric's line alone. In a log without a
line feed these find nothing, as all of it is one line: there they are called with `-ao 'val_bpb: *[0-9.]*'`. That both read the
same number is checked. All files are in the page cache. `ar` reads a log once, from its start: it removes escapes, then searches
each name. The peers search one name. All use one core. `dd` shows what copying out of the page cache costs.
"""

import json
import os
import shutil
import statistics
import subprocess
from pathlib import Path

import made_logs
from frame import ENVIRONMENT, Row, Unequal, alternate, called, timed
from made_logs import COLOURED, NUMBER, PLAIN, REPEATED, SINGLE

PLACES = {"near its start": 0.0, "in its middle": 0.5, "near its end": 1.0}


def peers(kind):
    """The peers' command lines by their names, for `sh`."""
    # A log without a line feed is one line to them, at whose start the number does not stand.
    pattern = "-ao 'val_bpb: *[0-9.]*'" if kind == SINGLE else "-a '^val_bpb:'"
    found = {"grep": f"grep {pattern} log | tail -1"}
    if shutil.which("rg"):
        found["ripgrep"] = f"rg {pattern} log | tail -1"
    return found


class Bench:
    """The log that is measured, and both sides' ways to read it."""

    def __init__(self, context):
        self.context = context
        self.command = [context.ar, "extract", "log", "--metric", "val_bpb", "--format", "json"]

    def make(self, kind, size, place, summary=made_logs.SUMMARY):
        made_logs.make(self.context.folder / "log", kind, size, place, summary)
        # Nothing is left to be written while it is read.
        os.sync()

    def ours(self):
        return timed(self.command, self.context.folder)[0] * 1e3

    def shell(self, command):
        return timed(["sh", "-c", command], self.context.folder)[0] * 1e3

    def median(self, call):
        return statistics.median(call() for _ in range(1 if self.context.short else 5))

    def resident(self):
        """The peak in MB that the kernel names while it runs: what it names afterwards holds this program's own as well."""
        reader = subprocess.Popen(self.command, cwd=self.context.folder, env=ENVIRONMENT, stdout=subprocess.PIPE)
        peak = 0
        while (status := Path(f"/proc/{reader.pid}/status").read_text()).count("VmHWM:"):
            peak = int(status.split("VmHWM:")[1].split()[0])
        reader.communicate()
        return peak / 1024

    def compare(self, name, kind, place):
        """A row for each peer whose target says something of this place."""
        for peer, command in peers(kind).items():
            if peer == "ripgrep" and place != 1.0:
                continue
            ours = json.loads(called(self.command, self.context.folder))["raw"]
            theirs = called(["sh", "-c", command], self.context.folder).decode().split()
            if ours != NUMBER or theirs[-1:] != [NUMBER]:
                raise Unequal(f"{name}: ar reads {ours}, {peer} {theirs[-1:]}")
            rounds = 1 if self.context.short else 3 if kind == SINGLE else 7
            times = alternate(rounds, self.ours, lambda: self.shell(command))
            yield Row(name, *times, f"{peer} | tail", "ms", 1.0)


def rows(context):
    bench = Bench(context)
    size = 10**7 if context.short else 10**9
    label = "10 MB" if context.short else "1 GB"
    if not shutil.which("rg"):
        context.skip(f"reading a {label} log against ripgrep", "there is no `rg` here")
    resident = []
    for kind in (PLAIN, SINGLE, COLOURED, REPEATED):
        # The step lines of one hold it everywhere.
        for where, place in list(PLACES.items())[2 if kind == REPEATED else 0:]:
            bench.make(kind, size, place)
            yield from bench.compare(f"reading a {label} log, {kind}, the number {where}", kind, place)
            resident.append(bench.resident())
    bench.make(PLAIN, size, 1.0, "val_bpb: 1.834200{0}")
    yield from bench.compare(f"reading a {label} log, {PLAIN}, the number near its end, no memory named", PLAIN, 1.0)
    resident.append(bench.resident())
    yield Row(f"resident memory while reading a {label} log", resident, [], "", "MB", 20.0, "the peaks of all the logs above")
    growth(bench)


def growth(bench):
    """What a log costs by its size, and by its escapes."""
    sizes = [10**6, 10**7] if bench.context.short else [10**6, 10**7, 10**8, 10**9]
    header = ["log", "the number at its start", "the number at its end", "grep, the number at the end", "dd, copying alone"]
    lines = []
    for kind, size in [(PLAIN, size) for size in sizes] + [(COLOURED, sizes[-1])]:
        figures = []
        for place in (0.0, 1.0):
            bench.make(kind, size, place)
            figures.append(bench.median(bench.ours))
        for command in (peers(kind)["grep"], "dd if=log of=/dev/null bs=256K 2>/dev/null"):
            figures.append(bench.median(lambda: bench.shell(command)))
        lines.append([f"{size // 10**6} MB, {kind}", *(f"{figure:.1f} ms" for figure in figures)])
    (bench.context.folder / "log").unlink()
    bench.context.growth("Reading a log, by its size", header, lines)
