"""Sums up a results.tsv in either dialect with pandas, as JSON with one entry for each row."""

import csv
import json
import sys

import pandas as pd

OUTCOMES = {"improved": "keep", "rejected": "discard", "failed": "crash"}

rows = pd.read_csv(sys.argv[1], sep="\t", dtype=str, keep_default_na=False, quoting=csv.QUOTE_NONE)
metric = rows.columns[1]
rows = rows.rename(columns={rows.columns[0]: "commit"})
outcome = rows["status"].replace(OUTCOMES)
value = pd.to_numeric(rows[metric], errors="coerce").where(outcome != "crash")
is_kept = outcome == "keep"
memory = rows["memory_gb"]
kept = value[is_kept]
gain = -kept.diff()
best = kept.idxmin()
whole = value[0] - kept[best]
streak = (~is_kept).groupby(is_kept.cumsum()).cumsum()
last = streak.idxmax()
margin = gain[gain > 0].median()
behind = (kept.reindex(value.index).ffill() - value)[outcome == "discard"]
misses = behind[behind >= -margin].nlargest(5)
counts = outcome.value_counts()
experiments = pd.DataFrame({"id": rows.index, "commit": rows["commit"], "value": value, "raw": rows[metric].where(value.notna()),
                            "outcome": outcome, "failure": memory.where((outcome == "crash") & (memory == "oom")), "description": rows["description"]})
summary = {
    "metric": metric,
    "counts": {"total": len(rows), **{word: int(counts.get(word, 0)) for word in ("keep", "discard", "crash")}},
    "best": {"id": int(best), "value": float(kept[best])},
    "gain": float(whole),
    "keep_rate": float(is_kept[1:].mean()),
    "longest_streak": int(streak[last]),
    "streak": [int(last - streak[last] + 1), int(last)],
    "kept": [{"id": id, "value": number, "gain": None if pd.isna(step) else step, "share": None if pd.isna(step) else step / whole}
             for id, number, step in zip(kept.index.tolist(), kept.tolist(), gain.tolist())],
    "near_misses": [{"id": id, "gain": number} for id, number in misses.items()],
}
sys.stdout.write(json.dumps(summary, indent=2)[:-2] + ',\n  "experiments": ')
sys.stdout.write(experiments.to_json(orient="records", indent=2, double_precision=15))
sys.stdout.write("\n}\n")
