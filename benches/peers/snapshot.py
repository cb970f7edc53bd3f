"""Snapshot and restore in one process.

Both sides turn the same edited working tree into a commit and put branch, index and files back: `git commit -qam` and `git reset
-q --hard HEAD~1` here, the functions that the loop calls there (`benches/turns.rs`, one process as in the loop), with objects,
refs and index synced; git runs without any fsync. That both committed the same tree, and that `git status` is clean behind
either, is checked.
"""

import json
import subprocess
import time
from pathlib import Path

import repositories
from frame import ENVIRONMENT, Row, Unequal, alternate, called
from repositories import git

ROOT = Path(__file__).resolve().parent.parent.parent


def rows(context):
    turns = built("turns", context.short)
    sizes = [10, 100] if context.short else [10, 100, 1_000, 10_000, 100_000]
    growth = []
    for files in sizes:
        source = context.folder / f"files{files}"
        repositories.make(source, files)
        ours, theirs = context.folder / "ours", context.folder / "theirs"
        repositories.copy(source, ours)
        repositories.copy(source, theirs)
        rounds = 2 if context.short else 21 if files <= 10_000 else 11
        ar, peer = take_turns(turns, ours, theirs, rounds)
        growth.append([f"{files:,}", f"{sorted(ar)[len(ar) // 2] * 1e3:.1f}", f"{sorted(peer)[len(peer) // 2] * 1e3:.1f}"])
        if files in (10_000, 100_000) or context.short:
            milliseconds = [[seconds * 1e3 for seconds in side] for side in (ar, peer)]
            yield Row(f"snapshot and restore in process, {files:,} files", *milliseconds,
                      "git commit -qam; git reset -q --hard", "ms", 0.5)
    context.growth("Snapshot and restore by number of files, ms", ["files", "in process", "git"], growth)


def built(name, is_short):
    """A benchmark's program; for a short run as the tests build it, which is there already where they have run."""
    how = ["build"] if is_short else ["bench", "--no-run", "--profile", "dist"]
    command = ["cargo", *how, "--locked", "--quiet", "--bench", name, "--message-format", "json"]
    told = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout.splitlines()
    artifacts = [json.loads(line) for line in told if line.startswith(b"{")]
    return next(found["executable"] for found in artifacts if found.get("executable") and found["target"]["name"] == name)


def take_turns(turns, ours, theirs, rounds):
    driver = subprocess.Popen([turns], cwd=ours, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    step = 0
    trees = {}

    def edit(folder):
        text = (folder / "train.py").read_text().split("\n", 1)[1]
        (folder / "train.py").write_text(f"STEP = {step}\n{text}")

    def turn():
        edit(ours)
        driver.stdin.write("go\n")
        driver.stdin.flush()
        nanoseconds, trees[ours] = driver.stdout.readline().split()
        return int(nanoseconds) / 1e9

    def by_git():
        edit(theirs)
        begun = time.perf_counter()
        called(["git", "commit", "-qam", "an experiment"], theirs)
        commit = time.perf_counter() - begun
        trees[theirs] = git(theirs, "rev-parse", "HEAD^{tree}").strip()
        begun = time.perf_counter()
        called(["git", "reset", "-q", "--hard", "HEAD~1"], theirs)
        return commit + time.perf_counter() - begun

    def both(_):
        nonlocal step
        step += 1
        one = alternate(1, turn, by_git) if step % 2 else alternate(1, by_git, turn)[::-1]
        if len(set(trees.values())) != 1:
            raise Unequal(f"trees {trees}")
        return one[0][0], one[1][0]

    measured = [both(number) for number in range(rounds)]
    driver.stdin.close()
    if driver.wait():
        raise SystemExit("benches/turns.rs failed")
    for folder in (ours, theirs):
        left = git(folder, "status", "--porcelain")
        if left:
            raise Unequal(f"{folder} has changes: {left}")
    return [ours for ours, _ in measured], [theirs for _, theirs in measured]
