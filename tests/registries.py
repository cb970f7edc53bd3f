"""What test scripts install from registries, once for all below `target/registries`.

    from registries import Skipped, npm, program, venv
    python = venv("mcp", "mcp==2.3.0")              # its interpreter
    inspector = npm("inspector", "@modelcontextprotocol/inspector@2.12.0")      # its folder, with node_modules/.bin
    chromium = program("chromium")                  # on the PATH, else from Debian's packages

Each raises Skipped, with the reason, where it cannot be had. Versions are pinned by whoever asks. Needs Python 3.9.
"""
import fcntl
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

PLACE = Path(os.environ.get("AR_TEST_REGISTRIES") or Path(__file__).resolve().parent.parent / "target" / "registries")
PATIENCE = 600


class Skipped(Exception):
    """Why something cannot be had here."""


def venv(name, *requirements):
    """The interpreter of a virtual environment with these packages of PyPI."""
    with place(f"venv-{name}", requirements) as (folder, is_made):
        if not is_made:
            install(sys.executable, "-m", "venv", folder)
            # Wheels alone: a source package may build for a quarter of an hour.
            install(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:",
                    *requirements)
    return str(folder / "bin" / "python")


def npm(name, *packages):
    """A folder with these packages of npm below `node_modules`."""
    if not shutil.which("npm"):
        raise Skipped("npm is not installed")
    with place(f"npm-{name}", packages) as (folder, is_made):
        if not is_made:
            folder.mkdir()
            install("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder, *packages)
    return str(folder)


def program(name, package=None):
    """The path of a program, of a package of Debian if it is not installed."""
    if not shutil.which(name):
        if os.geteuid() or not shutil.which("apt-get"):
            raise Skipped(f"{name} is not installed, and this is not root on a system with apt")
        apt = ("apt-get", "-qy", "-o", "DPkg::Lock::Timeout=120", "--no-install-recommends", "install", package or name)
        try:
            install(*apt)
        except Skipped:
            install("apt-get", "-q", "update")
            install(*apt)
    return shutil.which(name) or missing(name)


def missing(name):
    raise Skipped(f"{name} is not there after its installation")


@contextmanager
def place(name, wanted):
    """A folder, and whether it already has just what is wanted. What failed half-way is removed."""
    PLACE.mkdir(parents=True, exist_ok=True)
    folder, mark, text = PLACE / name, PLACE / f"{name}.has", "\n".join(wanted)
    # Two scripts may want the same.
    with open(PLACE / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if mark.is_file() and mark.read_text() == text and folder.is_dir():
            yield folder, True
            return
        mark.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        yield folder, False
        mark.write_text(text)


def install(*command):
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive", RUNLEVEL="1")
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise Skipped(f"`{' '.join(words[:4])} …` took longer than {PATIENCE} s") from None
    if done.returncode:
        raise Skipped(f"`{' '.join(words)}` failed: {' '.join((done.stderr or done.stdout).split())[-300:]}")
