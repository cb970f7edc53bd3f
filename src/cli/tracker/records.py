"""Writes the experiments of an `ar` session to a tracker, by the tracker's own client library.

    ar export TAG --to TRACKER --print-script >tracker.py
    ar export TAG --to jsonl | python3 tracker.py --output FOLDER [--uri URI]
"""
import argparse
import hashlib
import json
import os
import re
import sys
from datetime import datetime

parser = argparse.ArgumentParser()
parser.add_argument("--output", help="folder for all files")
parser.add_argument("--uri", help="server to write to")
arguments = parser.parse_args()
OUTPUT, URI = arguments.output and os.path.abspath(arguments.output), arguments.uri
if not (OUTPUT or URI):
    parser.error("--output or --uri is required")


def records():
    """The records, each as soon as its line is there."""
    for line in sys.stdin.buffer:
        yield json.loads(line)


def key(first, number=""):
    """An id of the session with this first record, or of one of its experiments; it is the same in every export."""
    return hashlib.sha256(f"{first['tag']}\n{first['commit']}\n{first['started']}\n{number}".encode()).hexdigest()[:24]


def seconds(moment):
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()


def title(record):
    return cut(f"{record['id']} {record['description']}", 120)


def cut(text, longest):
    text = " ".join(str(text).split())
    return text if len(text) <= longest else text[:longest - 1] + "…"


def numbers(record):
    """All numbers of an experiment by name; without the metric that a failed run printed."""
    metric = record["metric"]
    found = {name: value for name, value in record["metrics"].items() if name != metric["name"]}
    found.setdefault("memory_gb", record["memory_gb"])
    if record["runs"]:
        found.setdefault("seconds", sum(run["seconds"] for run in record["runs"]))
    found[metric["name"]] = metric["value"]
    named = {}
    for name, value in found.items():
        # What no tracker allows in a name; two names may become one.
        plain = re.sub(r"[^\w.\- :]", "_", name)[:200]
        while plain in named:
            plain += "_"
        if isinstance(value, (int, float)):
            named[plain] = float(value)
    return named


def facts(record):
    """What an experiment was, as texts."""
    run, failure = (record["runs"] or [{}])[-1], record["failure"] or {}
    found = {
        "session": record["tag"], "experiment": record["id"], "outcome": record["outcome"], "failure": failure.get("class"),
        "reason": record["reason"], "description": record["description"], "direction": record["direction"],
        "commit": record["commit"], "base": record["base"], "metric": record["metric"]["name"], "better": record["metric"]["direction"],
        "command": run.get("command"), "seed": run.get("seed"), "agent": (record.get("agent") or {}).get("command"),
        "started": record["started"], "finished": record["finished"],
    }
    # A commit that nobody knows is all zeros.
    return {name: cut(value, 5000) for name, value in found.items() if str(value or "").strip("0") or value == 0}


def notes(record):
    return "; ".join([record["reason"], *(note["text"] for note in record.get("notes", []))])


class Course:
    """The best value so far."""
    best = None

    def add(self, record):
        """The value of an experiment and the best one so far, by name; empty without a value."""
        metric, value = record["metric"], record["metric"]["value"]
        if value is None:
            return {}
        better = max if metric["direction"] == "higher" else min
        if record["outcome"] == "keep":
            self.best = value if self.best is None else better(self.best, value)
        return {metric["name"]: value, **({} if self.best is None else {"best": self.best})}


