#!/usr/bin/env python3
"""Looks whether MLflow reads what `ar export --to mlflow` wrote: by its Python API, and by a server's REST API.

    ar export TAG --to mlflow --output STORE
    ar export TAG --to jsonl --output RECORDS
    MLFLOW_ALLOW_FILE_STORE=true tests/mlflow/check.py STORE RECORDS

Wants `pip install mlflow`.
"""

import json
import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import mlflow
from mlflow.tracking import MlflowClient

STORE = Path(sys.argv[1]).resolve()
RECORDS = [json.loads(line) for line in Path(sys.argv[2]).read_text().splitlines()]
TAG = RECORDS[0]["tag"]
troubles = []


def check(holds, what):
    print("ok  " if holds else "FAIL", what)
    if not holds:
        troubles.append(what)


def plain(name):
    return re.sub(r"[^\w.\-: ]", "_", name)


def numbers(record):
    """The numbers that a run should have at least."""
    metric = record["metric"]
    found = {plain(name): value for name, value in record["metrics"].items() if name != metric["name"]}
    if metric["value"] is not None:
        found[plain(metric["name"])] = metric["value"]
    return found


mlflow.set_tracking_uri(STORE.as_uri())
experiments = [found for found in mlflow.search_experiments() if found.name == TAG]
check(len(experiments) == 1, f"there is one experiment {TAG}")
runs = mlflow.search_runs([experiments[0].experiment_id], output_format="list")
check(len(runs) == len(RECORDS), f"{len(runs)} runs for {len(RECORDS)} experiments")
by_id = {int(run.data.tags["ar.experiment"]): run for run in runs}
for record in RECORDS:
    run, name = by_id[record["id"]], f"experiment {record['id']}"
    wanted = numbers(record)
    got = {key: value for key, value in run.data.metrics.items() if key in wanted}
    check(got == wanted, f"{name}: {len(wanted)} numbers")
    has_metric = plain(record["metric"]["name"]) in run.data.metrics
    check(has_metric == (record["metric"]["value"] is not None), f"{name}: the metric is there where it counts")
    status = "FAILED" if record["outcome"] == "crash" else "FINISHED"
    check(run.info.status == status, f"{name}: {status}")
    check(run.info.run_name.startswith(f"{record['id']} "), f"{name}: {run.info.run_name}")
    check(run.data.tags["mlflow.note.content"].startswith(record["reason"][:50]), f"{name}: the reason")
    known = record["commit"].strip("0") != ""
    check((run.data.tags.get("mlflow.source.git.commit") == record["commit"]) == known, f"{name}: the commit")
    check(run.data.params["base"] == record["base"] if known else True, f"{name}: the base")
    files = [file.path for file in MlflowClient().list_artifacts(run.info.run_id)]
    check("record.json" in files, f"{name}: {', '.join(files)}")

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
server = subprocess.Popen(
    [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", str(STORE), "--port", str(port), "--workers", "1"],
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)


def ask(path, body=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=body and json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read()


try:
    for _ in range(120):
        try:
            ask("/health")
            break
        except OSError:
            time.sleep(0.5)
    found = json.loads(ask(f"/api/2.0/mlflow/experiments/get-by-name?experiment_name={TAG}"))["experiment"]
    body = {"experiment_ids": [found["experiment_id"]], "max_results": 1000}
    runs = json.loads(ask("/api/2.0/mlflow/runs/search", body))["runs"]
    check(len(runs) == min(len(RECORDS), 1000), f"{len(runs)} runs by REST")
    crashes = sum(record["outcome"] == "crash" for record in RECORDS)
    check(sum(run["info"]["status"] == "FAILED" for run in runs) == crashes, f"{crashes} of them failed")
    check(b"<title>" in ask("/"), "the server has its page")
finally:
    server.terminate()
    server.wait()

print(f"{len(troubles)} troubles" if troubles else "all is well")
sys.exit(bool(troubles))
