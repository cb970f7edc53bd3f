"""The same ten changes by three ways. Called by a loop, this is the agent."""
import json
import os
import sys
from pathlib import Path

# What the change writes, its description and its direction. One crashes, one has no number, one repeats an earlier change.
CHANGES = [
    ("VAL=1.9\n", "a wider layer", "width"),
    ("VAL=1.95\n", "a narrower layer", "width"),
    ("VAL=1.8\n", "warm up", "schedule"),
    ("echo cannot open the data >&2; exit 3\n", "another loader", "data"),
    ("VAL=nan\n", "a higher rate", "schedule"),
    ("VAL=1.85\n", "a lower rate", "schedule"),
    ("VAL=1.7\n", "more layers", "depth"),
    ("VAL=1.95\n", "fewer layers", "depth"),
    ("VAL=1.65\n", "tie the embeddings", "embeddings"),
    ("VAL=1.66\n", "untie them", "embeddings"),
]
# The number of the one that repeats another: it is refused without a run.
REPEATED = 8


def make(number, folder):
    """Makes a change; returns its description and its direction."""
    text, description, direction = CHANGES[number - 1]
    Path(folder, "model.sh").write_text(text)
    return description, direction


if __name__ == "__main__":
    description, direction = make(int(os.environ["AR_EXPERIMENT"]), os.getcwd())
    Path(os.environ["AR_PROPOSAL"]).write_text(json.dumps({"description": description, "direction": direction}))
    sys.exit(0)
