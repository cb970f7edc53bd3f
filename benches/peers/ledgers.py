"""What a report of a large ledger costs.

In a results.tsv one row in a hundred was kept and one in twenty crashed. There is one in Karpathy's dialect (`keep`, `0.000000`
for a crash) and one in `ar`'s (`improved`, `nan`). It is summed up as JSON with an entry for each row: by
`ar report --ledger FILE --format json`, by an awk program (`ledger.awk`) and with pandas (`ledger_pandas.py`). Output goes to
/dev/null while time is measured. The three documents are read and compared beforehand: all rows with their numbers and outcomes,
counts, the best and its place, the gain, and the keep rate. So are the longest streak without a keep and what each kept row
gained, and with pandas the near misses.
"""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

from frame import ENVIRONMENT, Row, Unequal, alternate

HERE = Path(__file__).resolve().parent
WORDS = "lr warmup depth width heads rope muon swiglu batch decay dropout init bias scale".split()
DIALECTS = {
    "karpathy": ("commit\tval_bpb\tmemory_gb\tstatus\tdescription\n", 7, ("keep", "discard", "crash"), ("0.000000", "0.0")),
    "ar": ("commit_hash\tval_bpb\tmemory_gb\tstatus\tdescription\n", 8, ("improved", "rejected", "failed"), ("nan", "oom")),
}
# How far two results may be apart that were got by the same steps: the last digits, as not all print all of them.
CLOSE = 1e-12


def make(path, count, dialect):
    """Writes a ledger of `count` rows."""
    header, digits, (keep, discard, crash), (no_value, no_memory) = DIALECTS[dialect]
    chance = random.Random(7)
    best = 1.9
    with path.open("w") as file:
        file.write(header)
        for number in range(count):
            lot = chance.random()
            value, status, memory = f"{best + chance.random() * 0.1:.6f}", discard, f"{1 + chance.random() * 40:.1f}"
            if number == 0 or lot < 0.01:
                best -= chance.random() * 1e-5
                value, status = f"{best:.6f}", keep
            elif lot < 0.06:
                value, status, memory = no_value, crash, no_memory
            words = " ".join(chance.choices(WORDS, k=5)) + (' "quoted"' if lot > 0.99 else "")
            commit = f"{chance.getrandbits(4 * digits):0{digits}x}"
            file.write(f"{commit}\t{value}\t{memory}\t{status}\t{words} {number}\n")


def told(command, folder):
    """What a document says, as far as all of them say it: each experiment, what was kept, and the sums; near misses apart."""
    document = json.loads(subprocess.run(command, cwd=folder, env=ENVIRONMENT, check=True, stdout=subprocess.PIPE).stdout)
    fields = ("id", "commit", "value", "raw", "outcome", "failure", "description")
    experiments = [tuple(experiment[field] for field in fields) for experiment in document["experiments"]]
    kept = [(step["id"], step["value"], step["gain"]) for step in document["kept"]]
    sums = [document["metric"], *(document["counts"][word] for word in ("total", "keep", "discard", "crash")),
            document["best"]["id"], document["best"]["value"], *document["streak"], document["longest_streak"]]
    close = [document["gain"], document["keep_rate"]]
    misses = document.get("near_misses", [])
    misses = misses["experiments"] if isinstance(misses, dict) else misses
    return experiments, kept, sums, close, [(miss["id"], miss["gain"]) for miss in misses]


def near(one, other):
    return one == other or (None not in (one, other) and abs(one - other) <= CLOSE)


def compare(name, ours, peer):
    """Fails unless a peer's document says the same."""
    ours_experiments, ours_kept, ours_sums, ours_close, ours_misses = ours
    experiments, kept, sums, close, misses = peer
    if experiments != ours_experiments:
        odd = next((pair for pair in zip(ours_experiments, experiments) if pair[0] != pair[1]), None)
        raise Unequal(f"{name}: {len(ours_experiments)} and {len(experiments)} experiments; {odd}")
    steps = [near(one, other) for mine, theirs in zip(ours_kept, kept) for one, other in zip(mine, theirs)]
    if len(kept) != len(ours_kept) or not all(steps):
        raise Unequal(f"{name}: the kept rows differ")
    if sums != ours_sums or not all(map(near, ours_close, close)):
        raise Unequal(f"{name}: {ours_sums} {ours_close} and {sums} {close}")
    if misses and [id for id, _ in misses] != [id for id, _ in ours_misses]:
        raise Unequal(f"{name}: near misses {ours_misses} and {misses}")


def seconds(command, folder):
    begun = time.perf_counter()
    subprocess.run(command, cwd=folder, env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def with_pandas():
    """The Python that has pandas, and its version; nothing where there is none."""
    for python in filter(None, (os.environ.get("AR_BENCH_PYTHON"), "python3", sys.executable)):
        try:
            found = subprocess.run([python, "-c", "import pandas; print(pandas.__version__)"], env=ENVIRONMENT,
                                   capture_output=True, text=True)
        except OSError:
            continue
        if found.returncode == 0:
            return python, found.stdout.strip()
    return None


def peak(command, folder):
    """The most memory that a command had at once, in MB. It is never less than what this script had at most, so it comes first."""
    child = subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{command} failed with {child.returncode}")
    return used.ru_maxrss * 1024 / 1e6


def growth(context, report, rounds):
    """Time and memory from small to large, the least of the rounds."""
    for count in [1_000, 10_000] if context.short else [1_000, 10_000, 100_000, 1_000_000]:
        for dialect in DIALECTS:
            file = context.folder / f"{dialect}-{count}"
            make(file, count, dialect)
            most = peak([*report, file], context.folder)
            took = min(seconds([*report, file], context.folder) for _ in range(rounds))
            yield [f"{count:,}", dialect, f"{took:.3f}", f"{took / count * 1e6:.2f}", f"{most:.0f}"]


def rows(context):
    count, rounds = (10_000, 1) if context.short else (1_000_000, 7)
    report = [context.ar, "report", "--format", "json", "--ledger"]
    context.growth("A report as JSON by number of rows: the least time of the rounds", ["rows", "dialect", "s", "µs a row", "peak MB"],
                   list(growth(context, report, rounds)))
    name = f"`report --format json` of {count:,} rows"
    peaks = [peak([*report, f"karpathy-{count}"], context.folder) for _ in range(min(rounds, 3))]
    yield Row(f"{name}, peak resident memory", peaks, [], "", "MB", 300)

    pandas = with_pandas()
    peers = {"awk": ["awk", "-f", HERE / "ledger.awk"]}
    if pandas:
        peers[f"pandas {pandas[1]}"] = [pandas[0], HERE / "ledger_pandas.py"]
    else:
        context.skip(f"{name}, against pandas", "no pandas: `AR_BENCH_PYTHON` names a Python that has it")
    for dialect in DIALECTS:
        ours = told([*report, f"{dialect}-{count}"], context.folder)
        for peer, command in peers.items():
            compare(f"{peer}, {dialect}", ours, told([*command, f"{dialect}-{count}"], context.folder))
    del ours
    for peer, command in peers.items():
        figures = alternate(rounds, lambda: seconds([*report, f"karpathy-{count}"], context.folder),
                            lambda: seconds([*command, f"karpathy-{count}"], context.folder))
        if peer == "awk":
            yield Row(f"{name}, against awk", *figures, peer, "s", 1.5,
                      "the awk program is spared near misses, shares and warnings, and knows its columns beforehand")
        else:
            yield Row(f"{name}, against pandas", *figures, peer, "s", 0.2,
                      "both start anew and read the file; pandas is spared the warnings, and knows its columns beforehand")
