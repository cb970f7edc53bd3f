"""One night by one policy: made in a folder of its own, by the real binary or by the shell, and read from what it left."""

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from frame import ENVIRONMENT, Unequal, called
from repositories import git
from world import RUNS, World

HERE = Path(__file__).resolve().parent
SHELL = "the shell protocol"
ONCE, CONFIRMED, STRICT = "once", "confirmed", "strict"
TAG = "t"

# How long one night may take, in seconds.
PATIENCE = 600

# Set once nobody waits for the nights that are being played.
OVER = threading.Event()

# The share of ideas whose run fails, every how many ideas the agent is refused once, and the runs at which the loop is killed:
# by itself, or together with the run, as when the machine goes down.
BREAKS, REFUSED = 0.08, 15
KILLED, KILLED_WITH_RUN = [23, 71], [47, 89]


@dataclass
class Found:
    """What a night gave."""

    keeps: int
    false_keeps: int
    # The truth of what was kept, in standard deviations of a run.
    gain: float
    # The recorded number of the best, less its true one.
    overstated: float
    runs: int
    # Runs of which no line of the ledger tells, nor a candidate that waits for its decision.
    lost: int
    # Ideas of the agent of which none tells.
    lost_ideas: int

    def __str__(self):
        return (f"{self.keeps} keeps, {self.false_keeps} false, gain {self.gain:.3f}, overstated {self.overstated:.3f}, "
                f"{self.lost} of {self.runs} runs lost, {self.lost_ideas} ideas")


class Night:
    """A repository and, beside it, what agent and training need of the night."""

    def __init__(self, ar, folder, policy, seed, number, trouble, runs=RUNS):
        self.ar, self.folder, self.policy, self.trouble, self.runs = ar, folder, policy, trouble, runs
        self.repo, self.killed_runs = folder / "repo", 0
        shutil.rmtree(folder, ignore_errors=True)
        self.repo.mkdir(parents=True)
        (folder / "home").mkdir()
        world = World(seed, number)
        breaks = [trouble and luck < BREAKS for luck in world.luck]
        ideas = [f"{n} {gain:.12f}{' breaks' if broken else ''}" for n, (gain, broken) in enumerate(zip(world.ideas, breaks), 1)]
        kills = [run for run in KILLED + KILLED_WITH_RUN if trouble and run < runs]
        refusals = range(REFUSED, len(ideas) + 1, REFUSED) if trouble else []
        for name, lines in {"ideas": ideas, "noise": [f"{number:.12f}" for number in world.noise], "kills": kills,
                            "refusals": refusals, "idea": ["0 none"], "limit": [runs], "runs": []}.items():
            (folder / name).write_text("".join(f"{line}\n" for line in lines))
        # Whatever the training inherits, this is a call from outside the loop.
        end = f"env -u AR_EXPERIMENT -u AR_TAG {quote(str(ar))} stop {TAG} >/dev/null 2>&1" if policy != SHELL else ":"
        (folder / "last").write_text(f"{end}\n")
        shutil.copy(HERE / "train.sh", self.repo)
        (self.repo / "ideas.txt").touch()
        (self.repo / ".gitignore").write_text("run.log\nagent.log\nresults.tsv\n.autoresearch/\n")
        git(self.repo, "init", "-q", "-b", "main")
        git(self.repo, "add", "-A")
        git(self.repo, "commit", "-q", "-m", "start")
        self.environment = ENVIRONMENT | {"HOME": str(folder / "home"), "AR_NO_PAUSES": "1", "AR_SANDBOX": "off", "AR_CONTROL": "false",
                                           "AR_SECOND_LOOK": "0"}

    def command(self, again):
        agent, train = f"sh {quote(f'{HERE}/agent.sh')} {quote(str(self.folder))}", f"sh train.sh {quote(str(self.folder))}"
        if self.policy == SHELL:
            return ["sh", HERE / "protocol.sh", agent, train, self.folder]
        if again:
            return [self.ar, "resume", TAG]
        return [self.ar, "run", "--yes", "--tag", TAG, "--metric", "score", "--higher", "--cmd", train, "--agent", agent,
                "--decide", self.policy]

    def play(self):
        """Makes the night, with as many starts as its kills ask for, and says what it gave."""
        deadline = time.monotonic() + PATIENCE
        try:
            again = False
            while self.start(again, deadline):
                again = True
        finally:
            self.end_all()
        found = self.of_shell() if self.policy == SHELL else self.of_ar()
        if found.runs != self.runs:
            raise Unequal(f"{self.policy}: {found.runs} runs instead of {self.runs}")
        if self.policy != SHELL and (found.lost > self.killed_runs or found.lost_ideas):
            raise Unequal(f"{self.policy} lost what no kill explains: {found}")
        return found

    def start(self, again, deadline):
        """Starts the loop; whether it was killed and has to be started again."""
        with open(self.folder / "out", "ab") as out:
            loop = subprocess.Popen(list(map(str, self.command(again))), cwd=self.repo, env=self.environment,
                                    stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        held = self.folder / "held"
        try:
            while loop.poll() is None:
                if time.monotonic() > deadline:
                    raise Unequal(f"{self.policy}: not over after {PATIENCE} s: {self.said()}")
                if OVER.is_set():
                    raise Unequal("interrupted")
                if held.exists():
                    # Of the protocol's shell everything else is a child, which a kill of the loop leaves.
                    loop.kill()
                    loop.wait()
                    if self.runs_so_far() in KILLED_WITH_RUN:
                        self.end_all()
                        self.killed_runs += 1
                    held.unlink()
                    return True
                time.sleep(0.02)
        finally:
            if loop.poll() is None:
                loop.kill()
                loop.wait()
        if loop.returncode:
            raise Unequal(f"{self.policy}: the loop failed with {loop.returncode}: {self.said()}")
        return False

    def remove(self):
        shutil.rmtree(self.folder)

    def said(self):
        return (self.folder / "out").read_text(errors="replace")[-2000:]

    def runs_so_far(self):
        return len((self.folder / "runs").read_text().splitlines())

    def end_all(self):
        """Kills whatever belongs to this night: what names its folder."""
        name = f"{self.folder}/".encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    if name in (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes():
                        os.kill(int(entry.name), signal.SIGKILL)
                except OSError:
                    pass

    def truth(self, commit):
        """Keeps, false ones and their sum, of the tree of a commit."""
        gains = [float(line.split()[1]) for line in git(self.repo, "show", f"{commit}:ideas.txt").splitlines()]
        return len(gains), sum(gain <= 0 for gain in gains), sum(gains)

    def found(self, commit, claim, told, ideas_told):
        keeps, false_keeps, gain = self.truth(commit)
        runs, ideas = self.runs_so_far(), int((self.folder / "idea").read_text().split()[0])
        return Found(keeps, false_keeps, gain, claim - gain, runs, runs - told, ideas - ideas_told)

    def of_shell(self):
        rows = [line.split("\t") for line in (self.repo / "results.tsv").read_text().splitlines()]
        commit, claim = next((commit, float(value)) for commit, value, status, _ in reversed(rows) if status == "keep")
        return self.found(commit, claim, len(rows), len(rows) - 1)

    def of_ar(self):
        text = called([self.ar, "log", "--tag", TAG, "--format", "json"], self.repo)
        records = json.loads(text)["experiments"]
        best = next(record for record in reversed(records) if record["outcome"] == "keep")
        # A candidate that the end of the night left undecided, with which `ar resume` would go on.
        journal = json.loads((self.repo / ".autoresearch" / TAG / "state" / "progress.json").read_text())
        still_open = journal.get("attempts") or []
        told = sum(len(experiment["runs"]) for experiment in records + still_open)
        # Of fresh runs of the baseline alone nothing is claimed, as in the simulation.
        claim = best["metric"]["value"] if best["id"] or self.policy == ONCE else 0.0
        return self.found(best["commit"], claim, told, len(records) - 1 + len(still_open))
