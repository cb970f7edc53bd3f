"""Pictures of the nights and of the frontier, in SVG, in the look of `ar report --chart`."""

import csv
import html
import io

import table
from night import CONFIRMED, ONCE, SHELL

WIDE = 1200
INK, FAINT, GRID, KEPT, DARK, BAD = "#24292f", "#59636e", "#e4e7eb", "#2fbf71", "#0b2e1a", "#cf222e"
FONT = "'DejaVu Sans', Verdana, 'Noto Sans', sans-serif"


class Picture:
    def __init__(self, height, title, about):
        self.height = height
        self.parts = [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {height}" width="{WIDE}" height="{height}" role="img" '
            f'aria-label="{html.escape(title)}; {html.escape(about)}" font-family="{FONT}" font-size="12" fill="{INK}">',
            f'<rect width="{WIDE}" height="{height}" fill="#ffffff"/>',
        ]
        self.text(40, 30, title, "font-size='17' font-weight='bold'")
        self.text(40, 52, about, f"fill='{FAINT}'")

    def text(self, x, y, words, more=""):
        self.parts.append(f"<text x='{x:.1f}' y='{y:.1f}' {more}>{html.escape(words)}</text>")

    def line(self, x1, y1, x2, y2, colour=GRID, width=1):
        ends = f"x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}'"
        self.parts.append(f"<line {ends} stroke='{colour}' stroke-width='{width}'/>")

    def dot(self, x, y, radius, fill, more=""):
        self.parts.append(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{radius}' fill='{fill}' {more}/>")

    def done(self):
        return "\n".join([*self.parts, "</svg>", ""])


def nights(found):
    """A row for each policy: the true gain of each night, its mean, and what the policy claims."""
    count = len(next(iter(found.values())))
    about = (f"{count} nights of 100 runs each: the same ideas, noise, crashes, rate limits and kills for all; "
             "the unit is the standard deviation of one run")
    picture = Picture(400, "What a night truly gains, and what it claims", about)
    gains = [night.gain for each in found.values() for night in each]
    claims = [night.gain + night.overstated for each in found.values() for night in each]
    low, high = min(0.0, min(gains)) - 0.5, max(table.mean(claims).value + 3, max(gains)) + 0.5
    left, right, top, bottom = 200, 900, 100, 340
    at = lambda value: left + (value - low) / (high - low) * (right - left)  # noqa: E731
    for tick in range(-2 * int(-low // 2), int(high) + 1, 2):
        picture.line(at(tick), top - 10, at(tick), bottom)
        picture.text(at(tick), bottom + 18, f"{tick} σ", "text-anchor='middle'")
    for x, words in [(930, "false keeps"), (1020, "ideas lost"), (1105, "σ per GPU-hour")]:
        picture.text(x, top - 14, words, f"font-size='11' fill='{FAINT}'")
    names = {SHELL: "the shell protocol", ONCE: "ar --decide once", CONFIRMED: "ar --decide confirmed"}
    step = (bottom - top) / len(found)
    for row, (policy, each) in enumerate(found.items()):
        y = top + step * (row + 0.5)
        picture.text(left - 16, y + 4, names[policy], "text-anchor='end' font-size='13'")
        for number, night in enumerate(each):
            # Spread over the row, so that dots of like nights do not hide each other.
            picture.dot(at(night.gain), y + (number * 7 % 11 - 5) * 3.4, 3, "#6e7781", "fill-opacity='0.5'")
        true = table.mean([night.gain for night in each])
        claimed = table.mean([night.gain + night.overstated for night in each])
        picture.line(at(true.value), y, at(claimed.value), y, BAD, 3)
        picture.dot(at(true.value), y, 8, KEPT, f"stroke='{DARK}'")
        picture.dot(at(claimed.value), y, 7, "#ffffff", f"stroke='{BAD}' stroke-width='2.5'")
        # To either side, as they may be close.
        picture.text(at(true.value) + 8, y - 24, f"{true.value:.2f}", "text-anchor='end' font-weight='bold'")
        picture.text(at(claimed.value) - 4, y - 24, f"{claimed.value:.2f}", f"dx='6' fill='{BAD}'")
        lost = table.mean([night.lost_ideas for night in each]).value
        per_hour = true.value / (each[0].runs / table.RUNS_PER_HOUR)
        for x, words in [(930, f"{100 * table.false_share(each).value:.0f}%"), (1020, f"{lost:.1f}"), (1105, f"{per_hour:.2f}")]:
            picture.text(x, y + 4, words, "font-size='13'")
    y = picture.height - 18
    for x, colour, more, words in [(left, "#6e7781", "fill-opacity='0.5'", "true gain of a night"),
                                   (left + 180, KEPT, f"stroke='{DARK}'", "its mean"),
                                   (left + 280, "#ffffff", f"stroke='{BAD}' stroke-width='2'",
                                    "the gain that the best number claims, on average")]:
        picture.dot(x, y - 4, 5, colour, more)
        picture.text(x + 12, y, words)
    return picture.done()


def frontier(text):
    """True gain against false share, a panel for each kind of night."""
    rows = list(csv.DictReader(io.StringIO(text)))
    picture = Picture(560, "What a rule gains, and how much of what it keeps is false",
                      "each dot is a screen and a probability; the named rules are those of --decide, and others; simulated")
    scenarios = list(dict.fromkeys(row["scenario"] for row in rows))
    for number, scenario in enumerate(scenarios):
        panel(picture, [row for row in rows if row["scenario"] == scenario], scenario, 80 + number * 580)
    return picture.done()


def panel(picture, rows, title, left):
    right, top, bottom = left + 480, 110, 490
    highest = max(float(row["gain"]) for row in rows) * 1.1
    x_of = lambda share: left + float(share) * (right - left)  # noqa: E731
    y_of = lambda gain: bottom - float(gain) / highest * (bottom - top)  # noqa: E731
    picture.text(left, top - 16, title, "font-size='14' font-weight='bold'")
    for tick in range(0, 101, 20):
        picture.line(x_of(tick / 100), top, x_of(tick / 100), bottom)
        picture.text(x_of(tick / 100), bottom + 18, f"{tick}%", "text-anchor='middle'")
    step = 1 if highest > 2 else 0.5
    for tick in range(int(highest / step) + 1):
        picture.line(left, y_of(tick * step), right, y_of(tick * step))
        picture.text(left - 8, y_of(tick * step) + 4, f"{tick * step:g} σ", "text-anchor='end'")
    picture.text((left + right) / 2, bottom + 40, "share of the kept that gains nothing or harms",
                 f"text-anchor='middle' fill='{FAINT}'")
    picture.text(left, top - 2, "true gain", f"fill='{FAINT}' font-size='11'")
    for row in rows:
        if row["rule"] == "frontier":
            picture.dot(x_of(row["false"]), y_of(row["gain"]), 3.5, "#8c959f", "fill-opacity='0.55'")
    for row in rows:
        if row["rule"] != "frontier":
            ours = row["rule"] in (CONFIRMED, "strict")
            picture.dot(x_of(row["false"]), y_of(row["gain"]), 7, KEPT if ours else "#58a6ff", f"stroke='{DARK}'")
            picture.text(x_of(row["false"]) + 11, y_of(row["gain"]) + 18, row["rule"],
                         f"font-size='13' {'font-weight=' + chr(39) + 'bold' + chr(39) if ours else ''} "
                         "stroke='#ffffff' stroke-width='3' paint-order='stroke'")
