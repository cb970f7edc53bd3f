"""Plays nights of 100 runs through the real binary, with a scripted agent and a fake training, and prints tables in Markdown.

    python3 benches/nights AR [--short] [--nights N]              nights with trouble: `ar` and the shell protocol side by side
    python3 benches/nights AR --compare [--short] [--nights N]    quiet nights, against the simulation `benches/night`
    python3 benches/nights --frontier CSV                         the picture of `cargo bench --bench night -- --csv`

AR is the program, by path. Two nights are played at a time. Every policy has the same ideas in the same order, and the same
noise. The number to beat in `--compare` is read from BENCHMARKS.md; the exit status is 1 where a figure is 3 standard errors or
more away from it. `--short` is for a test of the script: few short nights, no verdict and no picture. What comes of each night
is told as it ends.
"""

import argparse
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.append(str(HERE.parent / "peers"))
sys.dont_write_bytecode = True

import picture  # noqa: E402
import table  # noqa: E402
from frame import Unequal  # noqa: E402
from night import CONFIRMED, ONCE, OVER, SHELL, STRICT, Night  # noqa: E402
from world import RUNS  # noqa: E402


def main():
    options = argparse.ArgumentParser(prog="benches/nights", description=__doc__.splitlines()[0])
    options.add_argument("ar", type=Path, nargs="?", help="the program")
    options.add_argument("--compare", action="store_true", help="quiet nights, against the simulation")
    options.add_argument("--frontier", type=Path, metavar="CSV", help="draw docs/pictures/frontier.svg and nothing else")
    options.add_argument("--nights", type=int, default=60, help="how many nights of each policy [60]")
    options.add_argument("--seed", type=int, default=2, help="that of the random numbers [2]; the simulation's table has 1")
    options.add_argument("--short", action="store_true", help="few short nights: does the script work?")
    options = options.parse_args()
    pictures = ROOT / "docs" / "pictures"
    if options.frontier:
        (pictures / "frontier.svg").write_text(picture.frontier(options.frontier.read_text()))
        return 0
    if options.ar is None or not options.ar.exists():
        sys.exit(f"the program is not there: {options.ar}")
    if options.short:
        options.nights = min(options.nights, 2)
    # So that what was started is ended too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    policies = [ONCE, CONFIRMED, STRICT] if options.compare else [SHELL, ONCE, CONFIRMED]
    try:
        found = played(options, policies)
    except Unequal as unequal:
        sys.exit(f"a night went wrong: {unequal}")
    if options.compare:
        text, agrees = table.compared(found, (ROOT / "BENCHMARKS.md").read_text())
        print(text)
        return 0 if agrees or options.short else 1
    print(table.side_by_side(found))
    if not options.short:
        (pictures / "nights.svg").write_text(picture.nights(found))
    return 0


def played(options, policies):
    """What each night of each policy gave."""
    # Enough for a kill of either kind.
    runs = 50 if options.short else RUNS
    with tempfile.TemporaryDirectory(prefix="ar-nights-") as place, ThreadPoolExecutor(2) as pool:

        def play(policy, number):
            folder = Path(place) / f"{policies.index(policy)}-{number}"
            begun = time.monotonic()
            night = Night(options.ar.resolve(), folder, policy, options.seed, number, not options.compare, runs)
            found = night.play()
            night.remove()
            print(f"{policy}, night {number}: {found}, {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
            return found

        # By number first, so that a run that is cut off has as many nights of each.
        jobs = [(policy, pool.submit(play, policy, number)) for number in range(options.nights) for policy in policies]
        try:
            return {policy: [job.result() for of, job in jobs if of == policy] for policy in policies}
        except BaseException:
            OVER.set()
            pool.shutdown(cancel_futures=True)
            raise


if __name__ == "__main__":
    sys.exit(main())
