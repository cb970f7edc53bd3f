# MLflow would send what is used of it.
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"

import logging
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag, ViewType

logging.getLogger("mlflow").setLevel(logging.WARNING)
FAILED, FINISHED = "FAILED", "FINISHED"
# The most metrics that one call may bring.
BATCH = 1000


def experiment_of(client, first):
    """The MLflow experiment of the session with this first record, found again by its key."""
    found = client.search_experiments(filter_string=f"tags.`ar.key` = '{key(first)}'", view_type=ViewType.ACTIVE_ONLY)
    if found:
        return found[0].experiment_id
    name = first["tag"]
    # Another session may have the name, also a deleted one.
    if client.get_experiment_by_name(name):
        name += f"-{key(first)[:8]}"
    location = None if URI else Path(OUTPUT, "artifacts", key(first)).as_uri()
    return client.create_experiment(name, artifact_location=location, tags={"ar.key": key(first)})


def runs_of(client, experiment):
    """What earlier exports wrote, by the number of the experiment, also what was deleted since."""
    found, token = {}, None
    while True:
        page = client.search_runs([experiment], run_view_type=ViewType.ALL, max_results=1000, page_token=token)
        found.update({run.data.tags.get("ar.experiment"): run for run in page})
        token = page.token
        if not token:
            return found


def write(client, experiment, record, run):
    if run and run.info.lifecycle_stage == "deleted":
        return
    start, end = (int(seconds(record[name]) * 1000) for name in ("started", "finished"))
    named = {"ar.experiment": str(record["id"]), "ar.session": record["tag"]}
    run = run or client.create_run(experiment, start_time=start, run_name=title(record), tags=named)
    about = facts(record)
    tags = {f"ar.{name}": about[name] for name in ("outcome", "failure") if name in about}
    tags["mlflow.note.content"] = cut(notes(record), 5000)
    if "commit" in about:
        tags["mlflow.source.git.commit"] = about["commit"]
    metrics = [Metric(name, value, end, 0) for name, value in numbers(record).items() if name not in run.data.metrics]
    params = [Param(name, value) for name, value in about.items() if name not in run.data.params]
    client.log_batch(run.info.run_id, params=params, tags=[RunTag(*tag) for tag in tags.items()])
    for begin in range(0, len(metrics), BATCH):
        client.log_batch(run.info.run_id, metrics=metrics[begin:begin + BATCH])
    if not URI:
        client.log_dict(run.info.run_id, record, "record.json")
    client.set_terminated(run.info.run_id, FAILED if record["outcome"] == "crash" else FINISHED, end)


def main():
    if not URI:
        os.makedirs(OUTPUT, exist_ok=True)
    client = MlflowClient(URI or f"sqlite:///{OUTPUT}/mlflow.db")
    runs = None
    for record in records():
        if runs is None:
            experiment = experiment_of(client, record)
            runs = runs_of(client, experiment)
        write(client, experiment, record, runs.get(str(record["id"])))


main()
