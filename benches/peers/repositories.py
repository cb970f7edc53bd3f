"""Repositories of a given number of files, as a clone has them: one pack, one index, clean."""

import shutil
import subprocess
from pathlib import Path

from frame import called


def git(folder, *arguments):
    """What git prints."""
    return called(["git", *arguments], folder).decode()


def make(folder: Path, files: int):
    """A repository with `train.py` and so many files in all, a hundred to a folder, in one commit."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "train.py").write_text("STEP = 0\n" + "layer = make_layer(width=768)\n" * 600)
    (folder / ".gitignore").write_text("run.log\nresults.tsv\n")
    for number in range(files - 2):
        place = folder / f"src{number // 10000:02}" / f"part{number // 100 % 100:02}"
        if number % 100 == 0:
            place.mkdir(parents=True)
        (place / f"module{number % 100:02}.py").write_text(f"# module {number}\n" + f"x{number} = {number}\n" * 20)
    git(folder, "add", "-A")
    # Of so many new objects git would make a pack in the background, beside what comes next.
    git(folder, "-c", "gc.auto=0", "commit", "-q", "-m", "start")
    git(folder, "gc", "-q")


def copy(source: Path, target: Path):
    """The same repository again, in place of what was there, with an index that knows its files."""
    shutil.rmtree(target, ignore_errors=True)
    subprocess.run(["cp", "-a", source, target], check=True)
    git(target, "update-index", "-q", "--refresh")
