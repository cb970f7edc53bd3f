"""The scripted agent: makes the change of the experiment's number to train.py. The same list for every rule.

Most changes are small, as those of a real night are. A third of them does nothing but draw other random numbers, or nothing at
all; some may help, some may harm. Nobody has chosen them by their effect.
"""

import json
import os
import re
from pathlib import Path


def setting(name, value, why):
    return f"{name} {value}: {why}", rf"^{name} = .*$", f"{name} = {value}"


SEEDED = r"numpy\.random\.default_rng\(seed\)"
IDEAS = [
    setting("LEARNING_RATE", "0.055", "a little faster"),
    ("permute the examples instead of drawing them", r"random\.integers\(len\(inputs\), size=BATCH\)",
     "random.permutation(len(inputs))[:BATCH]"),
    setting("WIDTH", 28, "a little wider"),
    setting("WEIGHT_DECAY", "0.0001", "a trace of weight decay"),
    ("say what the mask is for", r"^( +)mask = ", r"\1# Dropout.\n\1mask = "),
    setting("BATCH", 40, "less noise in each step"),
    setting("MOMENTUM", "0.82", "smoother steps"),
    ("draw the first layer uniformly, with the same variance", r"random\.normal\(size=\(INPUTS, WIDTH\)\)",
     "random.uniform(-(3**0.5), 3**0.5, size=(INPUTS, WIDTH))"),
    setting("FINAL_RATE", "0.9", "a slight decay of the learning rate"),
    setting("INITIAL_SCALE", "1.1", "larger initial weights"),
    setting("STEPS", 520, "a few more steps"),
    ("rename the gradients", r"\bgradients\b", "slopes"),
    setting("SMOOTHING", "0.01", "a trace of label smoothing"),
    setting("WIDTH", 22, "a little narrower"),
    ("pass over the first random numbers", rf"^( +)random = {SEEDED}$", r"\g<0>\n\1random.random(1000)"),
    setting("LEARNING_RATE", "0.047", "a little slower"),
    setting("CLIP", "4.0", "clip the largest gradients"),
    setting("DROPOUT", "0.02", "a trace of dropout"),
    setting("MOMENTUM", "0.84", "smoother steps still"),
    setting("WARM_UP", 15, "warm up"),
    ("draw the mask in single precision", r"random\.random\(hidden\.shape\)", 'random.random(hidden.shape, dtype="float32")'),
    setting("BATCH", 28, "more noise in each step"),
    setting("FINAL_RATE", "0.7", "more decay of the learning rate"),
    setting("INITIAL_SCALE", "0.95", "smaller initial weights"),
    ("draw with Philox", SEEDED, "numpy.random.Generator(numpy.random.Philox(seed))"),
    setting("WEIGHT_DECAY", "0.0005", "more weight decay"),
    setting("WIDTH", 32, "wider"),
    setting("SMOOTHING", "0.03", "more label smoothing"),
    setting("LEARNING_RATE", "0.06", "faster"),
    setting("STEPS", 460, "fewer steps, as it learns the examples by heart"),
]


def main():
    number = int(os.environ["AR_EXPERIMENT"])
    description, pattern, replacement = IDEAS[number - 1]
    program = Path("train.py")
    text, count = re.subn(pattern, replacement, program.read_text(), flags=re.MULTILINE)
    if count == 0:
        raise SystemExit(f"idea {number} finds nothing to change: {pattern}")
    program.write_text(text)
    # A direction of its own, so that nobody asks for one.
    Path(os.environ["AR_PROPOSAL"]).write_text(json.dumps({"description": description, "direction": f"i{number}"}))


if __name__ == "__main__":
    main()
