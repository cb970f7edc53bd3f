#!/usr/bin/env python3
"""Makes a session of 300 experiments out of the demo's in seconds, with hostile descriptions, changes and logs.

    tests/html/session.py target/debug/ar FOLDER [EXPERIMENTS]

Its records are written as annotated tags by `git fast-import`; nothing is run.
"""

import json
import random
import subprocess
import sys
from pathlib import Path

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\x1b]0;title\x07 \x1b[31mred\x1b[0m",
    "</pre></details><script>alert(2)</script>",
    "\u202egnp.exe 学習率を下げる é",
    "'';!--\"<XSS>=&{()} javascript:alert(3)",
    "a very long description " + "which goes on and on " * 12,
]
WORDS = "raise lower rate warm up cosine batch size depth rotary window muon decay swiglu relu squared".split()


def git(folder, *args, feed=None):
    done = subprocess.run(["git", "-C", folder, *args], input=feed, stdout=subprocess.PIPE, check=True)
    return done.stdout


def main():
    ar, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 300
    subprocess.run([ar, "demo", folder], stdout=subprocess.DEVNULL, check=True)
    ref = git(folder, "for-each-ref", "--format=%(refname)", "refs/autoresearch/*/00001").decode().strip()
    prefix = ref.rsplit("/", 1)[0]
    tag = prefix.rsplit("/", 1)[1]
    body = git(folder, "for-each-ref", "--format=%(contents:body)", ref)
    model, base = json.loads(body), git(folder, "rev-parse", f"refs/heads/autoresearch/{tag}").decode().strip()

    plan = experiments(count)
    stream, kept = [], base
    for n, kind, _, text in plan:
        change = "".join(f"+{text} line {i}\n" for i in range(n % 40 + 2 if n % 50 else 900))
        stream += [f"blob\nmark :{n}\n", data(change), f"commit refs/import/{n}\nmark :{n + 100000}\n"]
        stream += ["committer A <a@example.com> 1763500000 +0000\n", data(text), f"from {kept}\n"]
        stream += [f"M 100644 :{n} change.txt\n\n"]
        kept = f":{n + 100000}" if kind == "keep" else kept
    git(folder, "fast-import", "--quiet", "--export-marks=marks", feed="".join(stream).encode())
    marks = dict(line.split() for line in (folder / "marks").read_text().splitlines())
    (folder / "marks").unlink()

    tags = []
    for n, kind, value, text in plan:
        commit, raw = marks[f":{n + 100000}"], f"{value:.6f}"
        number = {"value": None, "raw": None} if kind == "crash" else {"value": float(raw), "raw": raw}
        failure = {"class": "oom", "excerpt": text} if kind == "crash" else None
        record = {**model, "id": n, "sequence": n, "commit": commit, "base": base, "description": f"experiment {n}: {text}", "outcome": kind,
                  "metric": {**model["metric"], **number}, "failure": failure, "reason": f"because of {text}",
                  "fingerprint": {"tree": commit, "patch": commit}}
        base = commit if kind == "keep" else base
        tags += [f"tag {n}\nfrom {commit}\ntagger A <a@example.com> 1763500000 +0000\n", data(f"subject\n\n{json.dumps(record)}\n")]
        run = folder / ".autoresearch" / tag / "runs" / f"{n:05}"
        run.mkdir(parents=True)
        log = "".join(f"step {i} {text}\r\n" for i in range(200))
        (run / "run.log").write_text(log, newline="")
    git(folder, "fast-import", "--quiet", feed="".join(tags).encode())
    moves = "".join(f"create {prefix}/{n:05} refs/tags/{n}\ndelete refs/tags/{n}\ndelete refs/import/{n}\n" for n in range(11, count + 1))
    git(folder, "update-ref", "--stdin", feed=moves.encode())
    git(folder, "reset", "--quiet", "--hard", base)
    subprocess.run([ar, "doctor", "--repair"], cwd=folder, stdout=subprocess.DEVNULL, check=True)


def experiments(count):
    """Number, outcome, value and description of each experiment after the demo's."""
    draw, best, plan = random.Random(7), 2.2206, []
    for n in range(11, count + 1):
        words = " ".join(draw.choices(WORDS, k=draw.randint(3, 8)))
        text = HOSTILE[n // 6 % len(HOSTILE)] + " " + words if n % 6 == 0 else words
        value = best * draw.gauss(1.004, 0.002) if n != 150 else 941.5
        kind = "crash" if draw.random() < 0.08 else "keep" if value < best else "discard"
        best = value if kind == "keep" else best
        plan.append((n, kind, value, text))
    return plan


def data(text):
    return f"data {len(text.encode())}\n{text}\n"


if __name__ == "__main__":
    main()
