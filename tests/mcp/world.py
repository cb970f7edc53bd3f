"""Repositories with a fake training, and `ar mcp` in them."""
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from mcp import Client, StdioServerParameters
from mcp.types import ListRootsResult, Root

HERE = Path(__file__).resolve().parent
# Waits at the gate, then prints what the model says, as a training does. The memory comes first, so that a crash has it too:
# what a short run is measured to take depends on when it is looked at.
TRAIN = """while [ -e "$WORLD/closed" ]; do sleep 0.02; done
echo run >> "$WORLD/runs"
echo "memory_gb: 1.5"
. ./model.sh
echo "val_bpb: $VAL"
"""
SETTINGS = 'metric = "val_bpb"\ncmd = "sh train.sh"\ntag = "night"\n'
PATIENCE = 240


class ToolError(Exception):
    """What a tool says that failed."""


class World:
    """A repository below a folder of its own."""

    made = []

    def __init__(self, ar, settings=SETTINGS, **environment):
        World.made.append(self)
        self.ar = ar
        self.folder = Path(tempfile.mkdtemp(prefix="ar-mcp-"))
        self.repo = self.folder / "repo"
        (self.folder / "home").mkdir()
        self.repo.mkdir()
        # Nothing of the user's, and no guardian that would outlive the test.
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.folder / "home"), "LC_ALL": "C.UTF-8",
            "XDG_STATE_HOME": str(self.folder / "state"), "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "test", "GIT_AUTHOR_EMAIL": "test@example.com",
            "GIT_COMMITTER_NAME": "test", "GIT_COMMITTER_EMAIL": "test@example.com",
            "AR_NO_PAUSES": "1", "AR_SANDBOX": "off", "AR_CONTROL": "false", "WORLD": str(self.folder), **environment,
        }
        self.write("train.sh", TRAIN)
        self.write("model.sh", "VAL=2.0\n")
        self.write("ar.toml", settings)
        self.git("init", "-q", "-b", "main")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "start")

    def write(self, name, text):
        (self.repo / name).write_text(text)

    def value(self, value):
        self.write("model.sh", f"VAL={value}\n")

    def git(self, *words):
        done = subprocess.run(["git", *words], cwd=self.repo, env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, f"git {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def call(self, *words, code=0):
        """What `ar` prints."""
        done = subprocess.run([self.ar, *words], cwd=self.repo, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=PATIENCE)
        assert done.returncode == code, f"ar {' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def json(self, *words):
        return json.loads(self.call(*words, "--format", "json"))

    def close(self):
        """Has all runs wait."""
        (self.folder / "closed").touch()

    def open(self):
        (self.folder / "closed").unlink(missing_ok=True)

    def runs(self):
        runs = self.folder / "runs"
        return len(runs.read_text().splitlines()) if runs.exists() else 0

    def is_running(self):
        """Whether a process of the session has a run."""
        if not self.git("for-each-ref", "refs/heads/autoresearch"):
            return False
        status = self.json("status")["sessions"][0]
        return bool(status["owner"] and status["attempts"])

    def ledger(self):
        """The rows of the ledger without their commits."""
        rows = [row.split("\t") for row in (self.repo / "results.tsv").read_text().splitlines()]
        return [row[1:] for row in rows]

    def outcomes(self):
        return [record["outcome"] for record in self.json("log")["experiments"]]

    def end(self):
        """Nothing is lost, doubled or damaged, and nothing is running."""
        self.git("fsck", "--strict")
        if not self.git("for-each-ref", "refs/autoresearch"):
            shutil.rmtree(self.folder)
            return
        self.call("doctor")
        records = self.json("log")["experiments"]
        assert sorted(record["sequence"] for record in records) == list(range(len(records))), records
        assert len(self.ledger()) == len(records) + 1, self.ledger()
        status = self.json("status")["sessions"][0]
        assert (status["activity"], status["attempts"]) == ("idle", []), status
        shutil.rmtree(self.folder)


class Tools:
    """A client of `ar mcp` in the repository of a world."""

    def __init__(self, world, roots=None, **more):
        async def list_roots(_):
            return ListRootsResult(roots=[Root(uri=Path(root).as_uri()) for root in roots])
        self.world = world
        server = StdioServerParameters(command=world.ar, args=["mcp"], cwd=str(world.repo), env=world.environment)
        self.client = Client(server, list_roots_callback=list_roots if roots is not None else None, **more)

    async def __aenter__(self):
        await self.client.__aenter__()
        return self

    async def __aexit__(self, *error):
        return await self.client.__aexit__(*error)

    async def names(self):
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def call(self, tool, **args):
        """The structured answer of a tool, which the client holds against its schema."""
        result = await self.client.call_tool(tool, args)
        text = "\n".join(block.text for block in result.content)
        if result.is_error:
            raise ToolError(text)
        assert text.strip(), (tool, result)
        return result.structured_content

    async def fails(self, tool, *parts, **args):
        """The error of a tool, which has these parts and a hint."""
        try:
            answer = await self.call(tool, **args)
        except ToolError as error:
            text = str(error)
            assert all(part in text for part in ("error: ", "hint: ", *parts)), text
            return text
        raise AssertionError(f"{tool} {args} does not fail: {answer}")

    async def outcome(self, experiment):
        """Waits until the outcome is known, and collects the phases on the way."""
        until, phases = time.monotonic() + PATIENCE, []
        while time.monotonic() < until:
            waited = await self.call("wait", experiment=experiment, seconds=25)
            phases.append(waited["phase"])
            if waited["phase"] in ("recorded", "stopped"):
                return waited
        raise AssertionError(f"experiment {experiment} is not over: {phases}")

    async def measure(self, description, **more):
        """One experiment as an agent makes it."""
        begun = await self.call("try", description=description, **more)
        return await self.outcome(begun["experiment"])
