"""What every row is measured and told with: processes timed in turn, figures as ratios, one table."""

import os
import statistics
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    # The peers run nothing twice.
    "AR_CONTROL": "false",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "bench",
    "GIT_AUTHOR_EMAIL": "bench@example.com",
    "GIT_COMMITTER_NAME": "bench",
    "GIT_COMMITTER_EMAIL": "bench@example.com",
    "LC_ALL": "C",
}


class Unequal(Exception):
    """Both sides did not do the same work, so that their times say nothing."""


@dataclass
class Row:
    """One comparison: a figure per round for either side, and the bound on what comes of them. Lower is better by default."""

    name: str
    ours: list[float]
    peer: list[float]
    peer_name: str
    unit: str
    target: float
    note: str = ""
    least: bool = False

    @property
    def figure(self):
        """The ratio of the medians, or the median where there is no peer."""
        ours = statistics.median(self.ours)
        return ours / statistics.median(self.peer) if self.peer else ours

    @property
    def holds(self):
        return self.figure >= self.target if self.least else self.figure <= self.target


@dataclass
class Context:
    """What a module of rows is given, and where it leaves what is no row."""

    ar: Path
    short: bool
    folder: Path
    skipped: list = field(default_factory=list)
    growths: list = field(default_factory=list)

    def skip(self, name, why):
        self.skipped.append((name, why))

    def growth(self, title, header, lines):
        self.growths.append((title, header, lines))


def alternate(rounds, ours, peer):
    """Calls both in turn, the one that begins changing from round to round; each gives a figure, or is timed."""
    figures = ([], [])
    for number in range(rounds):
        sides = [(0, ours), (1, peer)]
        for side, call in sides if number % 2 else reversed(sides):
            begun = time.perf_counter()
            figure = call()
            elapsed = time.perf_counter() - begun
            figures[side].append(elapsed if figure is None else figure)
    return figures


def called(command, cwd, **options):
    """What a command prints, in the environment that all have here."""
    try:
        done = subprocess.run(list(map(str, command)), cwd=cwd, env=ENVIRONMENT, check=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, **options)
    except subprocess.CalledProcessError as failed:
        said = (failed.stderr or b"").decode(errors="replace")[-2000:]
        raise SystemExit(f"{' '.join(failed.cmd)} in {cwd} failed with {failed.returncode}:\n{said}") from failed
    return done.stdout


def timed(command, cwd, **options):
    """How many seconds a command takes, and what it prints."""
    begun = time.perf_counter()
    out = called(command, cwd, **options)
    return time.perf_counter() - begun, out


def rusage(command, cwd):
    """Wall seconds, processor seconds and peak resident KiB of a command with all its children, and what it prints."""
    begun = time.perf_counter()
    child = subprocess.Popen(list(map(str, command)), cwd=cwd, env=ENVIRONMENT, stdout=subprocess.PIPE)
    out = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} in {cwd} failed with {child.returncode}")
    return time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss, out
