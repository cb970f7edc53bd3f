"""Measures `ar` against what people use in its place, row by row, and prints a table.

    python3 benches/peers [--short] [--only MODULE]... [--write] [--ar PATH]

Builds the binary of profile `dist` and everything that it is measured on. Peer and `ar` take turns within a run; a figure is the ratio of
the medians, or the median where a row has no peer. Each row checks that both did the same work. `--short` is for a test of the
script: small sizes, one round, and no word about times. `--write` replaces BENCHMARKS.md by what was measured; the exit status
is 1 only where something could not be measured as told, never for a figure.
"""

import argparse
import importlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import table
from frame import Context, Unequal

ROOT = Path(__file__).resolve().parent.parent.parent
MODULES = ["loop", "one", "snapshot", "logs", "growing", "ledgers", "sessions", "idle", "slots", "binary"]


def main():
    options = argparse.ArgumentParser(prog="benches/peers", description=__doc__.splitlines()[0])
    options.add_argument("--short", action="store_true", help="small sizes and one round: does the script work?")
    options.add_argument("--only", action="append", choices=MODULES, help="these rows alone")
    options.add_argument("--write", action="store_true", help="write BENCHMARKS.md")
    options.add_argument("--ar", type=Path, help="a binary that is built already")
    options = options.parse_args()
    if options.write and (options.short or options.only):
        sys.exit("BENCHMARKS.md holds whole runs alone: leave out --short and --only")
    ar = options.ar
    if ar is None:
        subprocess.run(["cargo", "build", "--profile", "dist", "--locked", "--quiet"], cwd=ROOT, check=True)
        ar = ROOT / "target" / "dist" / "ar"
    measured = []
    with tempfile.TemporaryDirectory(prefix="ar-bench-") as place:
        for name in options.only or MODULES:
            context = Context(ar.resolve(), options.short, Path(place) / name)
            context.folder.mkdir()
            begun = time.monotonic()
            rows = []
            try:
                for row in importlib.import_module(name).rows(context):
                    rows.append(row)
                    print(table.line(row, options.short), file=sys.stderr)
            except Unequal as unequal:
                sys.exit(f"{name}: not the same work: {unequal}")
            measured.append((name, rows, context))
            print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr)
    text = table.page(measured, options.short, ROOT)
    print(text)
    if options.write:
        page = ROOT / "BENCHMARKS.md"
        page.write_text(text + table.simulated(page.read_text()))


if __name__ == "__main__":
    main()
