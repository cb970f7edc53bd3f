# Everything that W&B would keep in the home folder, or send, unless told otherwise.
for name in ("WANDB_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR", "WANDB_ARTIFACT_DIR"):
    os.environ[name] = OUTPUT
os.environ["WANDB_ERROR_REPORTING"] = "false"
if URI:
    os.environ["WANDB_BASE_URL"] = URI

import glob
import shutil

import wandb

SETTINGS = wandb.Settings(silent=True, console="off", disable_git=True, save_code=False, x_disable_stats=True, x_disable_meta=True,
                          x_disable_machine_info=True, x_save_requirements=False)


def start(identity, **about):
    """A run with this id. Offline, it replaces the one of an earlier export; a server continues it."""
    for earlier in glob.glob(os.path.join(glob.escape(OUTPUT), "wandb", f"offline-run-*-{identity}")):
        shutil.rmtree(earlier)
    return wandb.init(id=identity, resume="allow", mode="online" if URI else "offline", dir=OUTPUT, reinit="create_new",
                      project=os.environ.get("WANDB_PROJECT", "autoresearch"), settings=SETTINGS, **about)


def main():
    os.makedirs(OUTPUT, exist_ok=True)
    first, course, session = None, Course(), None
    for record in records():
        first = first or record
        if session is None:
            session = start(key(first), name=record["tag"], job_type="session", group=record["tag"])
        run = start(key(first, record["id"]), name=title(record), job_type="experiment", group=record["tag"],
                    tags=[record["outcome"]], notes=notes(record), config=facts(record))
        run.summary.update(numbers(record))
        run.finish(exit_code=1 if record["outcome"] == "crash" else 0)
        # A step that the server has already is not written again.
        about = {"experiment": record["id"], "_timestamp": seconds(record["finished"])}
        session.log({**course.add(record), **about}, step=record["sequence"])
    if session:
        session.finish()


main()
