"""Rows as lines of a terminal and as the page BENCHMARKS.md."""

import importlib
import os
import platform
import statistics
import subprocess
import time

from frame import ENVIRONMENT


# The heading of what `cargo bench --bench night` prints, at the end of the page.
NIGHT = "## What is kept of a noisy night"


def simulated(page):
    """The part of a page that no module here measures."""
    _, heading, text = page.partition(NIGHT)
    return f"\n{heading}{text}" if heading else ""


def figure(row):
    """A row's figure beside its bound, in its unit where it is no ratio."""
    value = f"{row.figure:.2f}" if row.figure < 10 else f"{row.figure:.0f}"
    bound = f"{'≥' if row.least else '≤'} {row.target:g}"
    return (value, bound) if row.peer else (f"{value} {row.unit}", f"{bound} {row.unit}")


def side(figures, unit):
    """The median of one side and how far its rounds lay apart."""
    if not figures:
        return ""
    median = statistics.median(figures)
    digits = 0 if median >= 100 else 1 if median >= 10 else 2
    apart = f" ({min(figures):.{digits}f}–{max(figures):.{digits}f})" if len(figures) > 1 else ""
    return f"{median:.{digits}f} {unit}{apart}"


def line(row, short):
    """What the terminal is told as soon as a row is there."""
    value, bound = figure(row)
    verdict = "" if short else "  holds" if row.holds else "  DOES NOT HOLD"
    peer = f" against {row.peer_name} {side(row.peer, row.unit)}" if row.peer else ""
    return f"{row.name}: {value} ({bound}){verdict}  {side(row.ours, row.unit)}{peer}"


def page(measured, short, root):
    """The whole run as Markdown."""
    out = ["# Benchmarks", "", "Written by `python3 benches/peers --write`; nothing here is typed by hand. A figure is the median of `ar` over the",
           "median of its peer on the same work in the same run, in alternating rounds, or `ar`'s median where it has no peer. In",
           "brackets: the fastest and the slowest round. `ar` is built with the profile `dist`, as it is installed.", "",
           *machine(root), ""]
    if short:
        out += ["A short run: the sizes are small and the times say nothing.", ""]
    out += ["| what | figure | target | holds | `ar` | peer |", "|---|---|---|---|---|---|"]
    for _, rows, context in measured:
        for row in rows:
            value, bound = figure(row)
            peer = f"{row.peer_name}: {side(row.peer, row.unit)}" if row.peer else ""
            holds = "–" if short else "yes" if row.holds else "**no**"
            out.append("| " + " | ".join(cell.replace("|", "\\|") for cell in
                                         (row.name, value, bound, holds, side(row.ours, row.unit), peer)) + " |")
        for name, why in context.skipped:
            out.append(f"| {name} | skipped | | | {why} | |")
    for name, rows, context in measured:
        module = importlib.import_module(name)
        out += ["", f"## {module.__doc__.splitlines()[0].rstrip('.')}", ""]
        out += [paragraph for paragraph in module.__doc__.split("\n\n", 1)[1:] for paragraph in [paragraph.strip()]]
        notes = {row.note: row.name for row in rows if row.note}
        out += ["", *[f"- {name}: {note}" for note, name in notes.items()]] if notes else []
        for title, header, lines in context.growths:
            out += ["", f"**{title}**", "", "| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
            out += ["| " + " | ".join(cells) + " |" for cells in lines]
    return "\n".join(out) + "\n"


def machine(root):
    """What was measured, on what."""
    def said(*command):
        try:
            return subprocess.run(command, cwd=root, env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            return "none"

    processor = next((text.split(":", 1)[1].strip() for text in open("/proc/cpuinfo") if text.startswith("model name")), platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    place = said("stat", "-f", "-c", "%T", "/tmp")
    return [f"- {time.strftime('%Y-%m-%d', time.gmtime())}, commit {said('git', 'rev-parse', '--short', 'HEAD')}",
            f"- {len(os.sched_getaffinity(0))} cores of {processor}, {memory:.0f} GiB, Linux {platform.release()}, {place}",
            f"- {said('git', '--version')}, {said('rustc', '--version')}, Python {platform.python_version()}"]
