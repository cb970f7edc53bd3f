"""Looking at a session of many experiments.

Each command is a process of its own, from its start to its end. A night leaves each object in a file of its own, those of records
not compressed, and the refs of all records but the last ones packed; `git gc` packs and compresses the objects. The peer is `git for-each-ref` printing every record, which
nobody can do without who reads the whole session: it only prints what the commands parse, compare and sum up. That each command
read the whole session is checked on its answer. The `resume` decision is `ar resume` on a session that has all its experiments:
it takes the session, reads and checks what is there, finds that nothing is left to do, notes that with every fsync, and ends.
"""

import json
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

from frame import ENVIRONMENT, Row, Unequal, called, timed
from repositories import git

MAKER = Path(__file__).resolve().parent.parent.parent / "tests" / "html" / "session.py"
NIGHT, PACKED = "as a night leaves it", "after `git gc`"
# How many records have refs of their own at most before `ar` packs them.
LOOSE_REFS = 63
# Milliseconds in which a command has to be there that people and agents call again and again.
AT_ONCE = 100
# How much longer than git's printing one may take that works through all records.
THROUGH = 3


def commands(count):
    """The commands that have a bound of their own and those that are held against git, each with what its answer shows."""
    records = count + 1
    at_once = {
        "log --top 20": lambda out: len(out.splitlines()) == 21,
        "log --sort best --top 20": lambda out: len(out.splitlines()) == 21,
        "status": lambda out: str(count).encode() in out,
        "resume": lambda out: f"already has {count} experiments".encode() in out,
    }
    through = {
        "log": lambda out: len(out.splitlines()) == records + 1,
        "log --format json": lambda out: len(json.loads(out)["experiments"]) == records,
        "log --grep muon --format csv": lambda out: len(out.splitlines()) > count / 10,
        "report": lambda out: f"{count} experiments".encode() in out,
        "report --format json": lambda out: len(json.loads(out)["experiments"]) == records,
        "status --format json": lambda out: json.loads(out)["sessions"][0]["experiments"] == count,
        "show last": lambda out: str(count).encode() in out,
        "show best": lambda out: b"outcome" in out,
        "diff baseline best": lambda out: b"val_bpb" in out,
        "doctor --format json": lambda out: len(json.loads(out)["sessions"]) == 1,
        "brief": lambda out: len(out) < 8192,
    }
    return at_once, through


class Session:
    """A session of so many experiments, in one of two forms."""

    def __init__(self, context, count):
        self.ar, self.count = context.ar, count
        self.folder = context.folder / f"session{count}"
        called([sys.executable, MAKER, context.ar, self.folder, count], context.folder)
        git(self.folder, "pack-refs", "--all")
        self.unpack()
        self.store_records()
        self.leave_newest_loose()

    def unpack(self):
        """Gives each object a file of its own."""
        store, aside = self.folder / ".git" / "objects" / "pack", self.folder.parent / f"packs{self.count}"
        shutil.move(store, aside)
        store.mkdir()
        for pack in aside.glob("*.pack"):
            with pack.open("rb") as stream:
                subprocess.run(["git", "unpack-objects", "-q"], cwd=self.folder, env=ENVIRONMENT, stdin=stream, check=True)
        shutil.rmtree(aside)

    def records(self):
        """The objects of the records with their refs, in order."""
        listing = git(self.folder, "for-each-ref", "--format=%(objectname) %(refname)", "refs/autoresearch").splitlines()
        return [line.split() for line in listing if line[-5:].isdigit()]

    def store_records(self):
        """Writes the objects of the records as `ar` does."""
        for object_name, _ in self.records():
            path = self.folder / ".git" / "objects" / object_name[:2] / object_name[2:]
            content = zlib.compress(zlib.decompress(path.read_bytes()), 0)
            path.unlink()
            path.write_bytes(content)

    def leave_newest_loose(self):
        """Gives the refs of the newest records files of their own."""
        for object_name, ref in self.records()[-min(LOOSE_REFS, self.count // 2):]:
            path = self.folder / ".git" / ref
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(object_name + "\n")

    def measure(self, names, rounds):
        """Milliseconds per command and round, with those of git under an empty name; checks what each answers."""
        peer = ["git", "for-each-ref", "--format=%(contents:body)", "refs/autoresearch"]
        figures = {name: [] for name in ["", *names]}
        for number in range(rounds + 1):
            for name, is_whole in [("", None), *names.items()][::1 if number % 2 else -1]:
                seconds, out = timed([self.ar, *name.split()] if name else peer, self.folder)
                if not name and (lines := out.count(b"\n")) < self.count + 1:
                    raise Unequal(f"git printed {lines} lines for {self.count + 1} records")
                if name and not is_whole(out):
                    raise Unequal(f"`ar {name}` did not read the whole session:\n{out[:2000].decode(errors='replace')}")
                # The first round is for the caches of the file system.
                if number:
                    figures[name].append(seconds * 1000)
        return figures


def rows(context):
    sizes, rounds = ([100, 300], 1) if context.short else ([100, 1_000, 10_000], 5)
    growth = []
    for count in sizes:
        session = Session(context, count)
        at_once, through = commands(count)
        many = count == sizes[-1]
        shown = [*at_once, "log", "report"]
        names = {**at_once, **through}
        figures = session.measure(names if many else {name: names[name] for name in shown}, rounds)
        growth.append([f"{count:,}"] + [f"{sorted(figures[name])[rounds // 2]:.1f}" for name in ["", *shown]])
        if not many:
            continue
        yield from bounded(at_once, figures, count, NIGHT)
        for name in through:
            yield Row(f"`ar {name}`, {count:,} experiments", figures[name], figures[""], "git for-each-ref", "ms", THROUGH)
        git(session.folder, "gc", "-q")
        yield from bounded(at_once, session.measure(at_once, rounds), count, PACKED)
    context.growth(f"Milliseconds by number of experiments in the session, {NIGHT}",
                   ["experiments", "git for-each-ref", "log --top 20", "log --sort best --top 20", "status", "resume", "log", "report"],
                   growth)


def bounded(names, figures, count, form):
    """The rows of commands that have to be there at once."""
    for name in names:
        what = "`ar resume` decision" if name.startswith("resume") else f"`ar {name}`"
        yield Row(f"{what}, {count:,} experiments {form}", figures[name], [], "", "ms", AT_ONCE)
