"""What following a log costs that grows at 100 MB/s.

A command writes progress at that pace, by the monotonic clock, in pieces of a megabyte. `ar run` has it write straight to the
log's file and reads what is new each second. The processor time of `ar` and of its shim is counted, without the command's, in
some seconds in the middle of the run, as the kernel counts it for their threads. It is given for each 100 MB by which the log
grew meanwhile, since a busy machine may not keep the pace. The number in the record must be the last one that was printed. `dd`
reading as much out of the page cache in the same pieces is the floor. The coloured log has an escape in every nine bytes.
"""

import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import made_logs
import repositories
from frame import ENVIRONMENT, Row, Unequal, rusage
from made_logs import COLOURED, PLAIN, REPEATED

PACE = 100e6


def write(kind, seconds):
    """Is the command: writes a log at the pace, and the number last."""
    progress = made_logs.block(kind)
    begun = time.monotonic()
    written = 0
    while (elapsed := time.monotonic() - begun) < seconds:
        if written > elapsed * PACE:
            time.sleep(written / PACE - elapsed)
        os.write(1, progress)
        written += len(progress)
    os.write(1, made_logs.SUMMARY.format("\n").encode())


def processor(pid):
    """Seconds that the threads of a process have run."""
    return sum(int(thread.read_text().split()[0]) for thread in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def children(pid):
    return [child for thread in Path(f"/proc/{pid}/task").glob("*/children") for child in thread.read_text().split()]


def follow(context, kind, seconds):
    """Runs the command once under `ar run`; gives the processor seconds of `ar` with its shim in which the log grew by what it
    grows by in a second at the pace, and the peak of `ar`'s resident memory in MB."""
    folder = context.folder / "work"
    shutil.rmtree(folder, ignore_errors=True)
    repositories.make(folder, 10)
    command = f"{sys.executable} {Path(__file__).resolve()} {kind.replace(' ', '-').replace(',', '')} {seconds + 3}"
    loop = subprocess.Popen([context.ar, "run", "--yes", "--tag", "bench", "--metric", "val_bpb", "--cmd", command], cwd=folder,
                            env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    log = folder / ".autoresearch/bench/runs/00000/run.log"
    while loop.poll() is None and not (log.exists() and log.stat().st_size > PACE / 2):
        time.sleep(0.05)
    shims = children(loop.pid)
    before = time.monotonic(), log.stat().st_size, sum(map(processor, [loop.pid, *shims]))
    time.sleep(seconds)
    after = time.monotonic(), log.stat().st_size, sum(map(processor, [loop.pid, *shims]))
    status = Path(f"/proc/{loop.pid}/status").read_text()
    resident = int(status.split("VmHWM:")[1].split()[0]) / 1024
    _, said = loop.communicate()
    if loop.returncode or len(shims) != 1:
        raise SystemExit(f"ar run failed with {loop.returncode}: {said.decode()[-2000:]}")
    elapsed, grown, used = (b - a for a, b in zip(before, after))
    if not context.short and grown < 0.5 * PACE * elapsed:
        raise Unequal(f"the log grew by {grown / elapsed / 1e6:.0f} MB/s alone")
    number = (folder / "results.tsv").read_text().splitlines()[1].split("\t")[1]
    if float(number) != float(made_logs.NUMBER):
        raise Unequal(f"the record says {number}")
    return used / grown * PACE, resident


def rows(context):
    seconds, rounds = (1, 1) if context.short else (8, 3)
    shares, peaks = {}, []
    for kind in (PLAIN, REPEATED, COLOURED):
        measured = [follow(context, kind, seconds) for _ in range(rounds)]
        shares[kind] = [share * 100 for share, _ in measured]
        peaks += [peak for _, peak in measured]
        yield Row(f"following a log that grows at 100 MB/s, {kind}", shares[kind], [], "", "% of a core", 5.0)
    yield Row("resident memory of `ar` while it follows", peaks, [], "", "MB", 25.0)
    log = context.folder / "work/.autoresearch/bench/runs/00000/run.log"
    dd = ["dd", f"if={log}", "of=/dev/null", "bs=256K", "status=none"]
    floor = min(rusage(dd, context.folder)[1] for _ in range(3)) / log.stat().st_size * PACE * 100
    context.growth("Following 100 MB/s, by what is in the log", ["log", "% of a core"], [
        *([kind, f"{statistics.median(share):.1f}"] for kind, share in shares.items()),
        ["the floor: dd reads as much", f"{floor:.1f}"]])
    shutil.rmtree(context.folder / "work")


if __name__ == "__main__":
    kinds = {kind.replace(" ", "-").replace(",", ""): kind for kind in (PLAIN, REPEATED, COLOURED)}
    write(kinds[sys.argv[1]], float(sys.argv[2]))
