"""Means over nights with their standard errors, and the tables."""

import itertools
import math
from dataclasses import dataclass

from night import CONFIRMED, ONCE, SHELL, STRICT

# The rows of BENCHMARKS.md with which each rule is compared, their columns, and the nights behind them.
SIMULATED = {ONCE: "keep if better", CONFIRMED: "`confirmed`", STRICT: "`strict`"}
SCENARIO, NIGHTS = "15% good ideas", 1000
# How many standard errors a figure may be away.
BOUND = 3
# Karpathy's runs of five minutes.
RUNS_PER_HOUR = 12

NAMES = {SHELL: "the shell protocol", ONCE: "`ar --decide once`", CONFIRMED: "`ar --decide confirmed`"}


@dataclass
class Figure:
    value: float
    error: float


def mean(values):
    count = len(values)
    value = sum(values) / count
    squares = sum((each - value) ** 2 for each in values)
    return Figure(value, math.sqrt(squares / max(count - 1, 1) / count))


def ratio(parts, wholes):
    """The ratio of two sums over the same nights; its error is that of a linear estimate."""
    whole = sum(wholes)
    if not whole:
        return Figure(0.0, 0.0)
    value = sum(parts) / whole
    off = mean([part - value * of for part, of in zip(parts, wholes)])
    return Figure(value, off.error * len(wholes) / whole)


def figures(nights):
    """Each figure that the simulation has too, with how many decimals and by what it is multiplied for display."""
    return {
        "keeps": (mean([night.keeps for night in nights]), 2, 1, ""),
        "false": (false_share(nights), 0, 100, "%"),
        "overstated": (mean([night.overstated for night in nights]), 2, 1, " σ"),
        "true gain": (mean([night.gain for night in nights]), 2, 1, " σ"),
    }


def false_share(nights):
    return ratio([night.false_keeps for night in nights], [night.keeps for night in nights])


def simulated(page):
    """By rule, the simulation's figures in BENCHMARKS.md."""
    lines = [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in page.splitlines() if line.startswith("|")]
    header = next(cells for cells in lines if cells[:2] == ["nights", "rule"])
    # The other rules follow in rows without the name of the scenario.
    first = next(place for place, cells in enumerate(lines) if cells[0] == SCENARIO and len(cells) == len(header))
    rest = itertools.takewhile(lambda cells: not cells[0], lines[first + 1:])
    rows = {cells[1]: dict(zip(header, cells)) for cells in [lines[first], *rest]}
    number = lambda text: float(text.split("±")[0].strip().rstrip("%")) / (100 if text.endswith("%") else 1)  # noqa: E731
    return {rule: {name: number(rows[row][name]) for name in ("keeps", "false", "overstated", "true gain")}
            for rule, row in SIMULATED.items()}


def compared(found, page):
    """The binary's nights against the simulation's, and whether all figures agree."""
    known = simulated(page)
    count = len(found[CONFIRMED])
    out = [f"| rule | figure | the binary, {count} nights | the simulation, {NIGHTS:,} nights | z |", "|---|---|---|---|---|"]
    agrees = True
    for rule, nights in found.items():
        for name, (figure, digits, by, unit) in figures(nights).items():
            expected = known[rule][name]
            # The simulation's nights are as different from each other as these.
            error = figure.error * math.sqrt(1 + count / NIGHTS)
            z = (figure.value - expected) / error if error else math.inf
            agrees &= abs(z) < BOUND
            out.append(f"| `{rule}` | {name} | {figure.value * by:.{digits}f} ± {figure.error * by:.{digits or 1}f}{unit} | "
                       f"{expected * by:.{digits}f}{unit} | {z:+.1f} |")
    return "\n".join(out), agrees


def side_by_side(found):
    """The nights with trouble."""
    out = ["| policy | keeps | false | overstated | true gain | more than the first | per GPU-hour | runs lost | ideas lost |",
           "|---|---|---|---|---|---|---|---|---|"]
    first = next(iter(found.values()))
    for policy, nights in found.items():
        # The nights are the same for all, so that their differences say more than the means.
        more = mean([night.gain - other.gain for night, other in zip(nights, first)])
        more = "" if nights is first else f"{more.value:+.2f} ± {more.error:.2f} σ"
        hours = [night.runs / RUNS_PER_HOUR for night in nights]
        per_hour = ratio([night.gain for night in nights], hours)
        gain, overstated, false = mean([n.gain for n in nights]), mean([n.overstated for n in nights]), false_share(nights)
        keeps = mean([n.keeps for n in nights]).value
        out.append(
            f"| {NAMES[policy]} | {keeps:.2f} | {100 * false.value:.0f} ± {100 * false.error:.0f}% | "
            f"{overstated.value:.2f} ± {overstated.error:.2f} σ | {gain.value:.2f} ± {gain.error:.2f} σ | {more} | "
            f"{per_hour.value:.2f} ± {per_hour.error:.2f} σ | {mean([n.lost for n in nights]).value:.1f} of {nights[0].runs} | "
            f"{mean([n.lost_ideas for n in nights]).value:.1f} |")
    return "\n".join(out)
