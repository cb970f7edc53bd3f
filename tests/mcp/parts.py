"""The parts of the test."""
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from shlex import quote

import anyio
from jsonschema import Draft202012Validator

from changes import CHANGES, REPEATED, make
from ways import by_command_line, by_loop, by_tools, without_own
from world import HERE, PATIENCE, SETTINGS, Tools, World

NAMES = ["brief", "try", "wait", "log", "show", "report", "status", "idea", "note", "stop"]
INSPECTOR = Path(os.environ["AR_TEST_INSPECTOR"], "node_modules", ".bin", "mcp-inspector")
# The two lifecycles of the protocol: with a handshake, and without.
MODES = ("legacy", "2026-07-28")


def inspect(world, *words, code=0):
    done = subprocess.run([INSPECTOR, "--cli", "--cwd", world.repo, world.ar, "mcp", *words], env=world.environment,
                          capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == code, (words, done)
    return json.loads(done.stdout), done.stderr


async def tools(ar):
    world = World(ar)
    for mode in MODES:
        async with Tools(world, mode=mode) as client:
            listed = (await client.client.list_tools()).tools
            assert [tool.name for tool in listed] == NAMES, listed
            for tool in listed:
                for schema in (tool.input_schema, tool.output_schema):
                    Draft202012Validator.check_schema(schema)
                    assert schema["type"] == "object", tool
                assert tool.description and tool.annotations.read_only_hint is not None, tool
            wait = {tool.name: tool for tool in listed}["wait"]
            assert wait.input_schema["properties"]["seconds"]["maximum"] == 25, wait
    world.value("1.5")
    world.call("try", "-m", "first")
    listed, complaints = await asyncio.to_thread(inspect, world, "--method", "tools/list", "--strict")
    assert [tool["name"] for tool in listed["tools"]] == NAMES and "Warning" not in complaints, complaints
    shown, _ = await asyncio.to_thread(inspect, world, "--method", "tools/call", "--tool-name", "show", "--tool-arg", "experiment=1")
    assert shown["structuredContent"]["outcome"] == "keep" and "first" in shown["content"][0]["text"], shown
    failed, _ = await asyncio.to_thread(inspect, world, "--method", "tools/call", "--tool-name", "show", "--tool-arg", "experiment=7",
                                        code=5)
    assert failed["isError"] and "hint: " in failed["content"][0]["text"], failed
    world.end()


async def night(ar):
    world = World(ar)
    async with Tools(world) as client:
        await by_tools_with(client, world)
        log = (await client.call("log"))["experiments"]
        assert [record["id"] for record in log] == list(range(10, -1, -1)), "the newest first"
        best = (await client.call("log", top=2))["experiments"]
        assert [record["metric"]["value"] for record in best] == [1.65, 1.66], best
        crashed = (await client.call("log", outcome="crash"))["experiments"]
        assert {record["id"] for record in crashed} == {4, 5}, crashed
        refused = (await client.call("log", outcome="refused"))["experiments"]
        assert [record["id"] for record in refused] == [REPEATED], refused
        shown = await client.call("show", experiment=4)
        assert "cannot open the data" in shown["log_tail"] and "model.sh" in shown["diff_text"], shown
        assert "1.65" in json.dumps(await client.call("report"))
        assert (await client.call("status"))["sessions"][0]["activity"] == "idle"
        await client.call("note", experiment=9, text="--look again")
        assert (await client.call("show", experiment=9))["notes"][0]["text"] == "--look again"
        ideas = (await client.call("idea", action="add", text="--swap the optimizer", direction="optimizer"))["ideas"]
        assert [(idea["text"], idea["direction"]) for idea in ideas] == [("--swap the optimizer", "optimizer")], ideas
        assert (await client.call("idea", action="drop", text="1"))["ideas"][0]["state"] == "dropped"
        world.call("tell", "keep it small")
        world.value("1.6")
        assert "from the person in charge: keep it small" in (await client.measure("smaller"))["next"]
        world.write("model.sh", "VAL=1.5\n" + "# much\n" * 30_000)
        await client.measure("a long change")
        long = await client.call("show", experiment=12)
        assert "ar show 12 --format json" in long["cut"] and len(json.dumps(long)) < 60_000, long.keys()
        assert world.json("show", "12")["reason"] == long["reason"]
    world.end()


async def by_tools_with(client, world):
    for number in range(1, len(CHANGES) + 1):
        description, direction = make(number, world.repo)
        waited = await client.measure(description, direction=direction)
        assert waited["experiment"] == number and waited["reason"], waited
        # What was refused without a run stays in the tree.
        left = world.git("status", "--porcelain")
        assert left == ("" if number != REPEATED else "M  model.sh\n"), (number, left)
        world.git("reset", "-q", "--hard")
    assert world.outcomes() == ["keep", "keep", "discard", "keep", "crash", "crash", "discard", "keep", "crash", "keep", "discard"]


async def phases(ar):
    """Each run and the guard wait for a sign, so that none of them passes unseen."""
    world = World(ar, SETTINGS + 'decide = "confirmed"\nguard = ["until [ -e ../guarded.$AR_EXPERIMENT ]; do sleep 0.02; done"]\n')
    world.write("train.sh", (world.repo / "train.sh").read_text().replace(
        ". ./model.sh", "n=$(grep -c . ../runs); until [ -e ../go.$n ]; do sleep 0.02; done\n. ./model.sh"))
    world.value("2.0$AR_SEED")
    world.git("commit", "-q", "-a", "-m", "each run waits for a sign")
    world.value("1.5$AR_SEED")

    async with Tools(world) as client:
        async def becomes(*phases):
            until = time.monotonic() + PATIENCE
            while (waited := await client.call("wait", experiment=1, seconds=0))["phase"] not in phases:
                assert time.monotonic() < until, (phases, waited)
                await anyio.sleep(0.05)
            return waited

        assert await client.call("try", description="first") == {"experiment": 1}
        await becomes("baseline")
        (world.folder / "guarded.0").touch()
        (world.folder / "go.1").touch()
        await becomes("running")
        (world.folder / "go.2").touch()
        await becomes("guards")
        (world.folder / "guarded.1").touch()
        confirming = [f"confirm {number} of 4" for number in range(1, 5)]
        seen, waited = set(), await becomes(*confirming)
        for run in range(3, 20):
            seen.add(waited["phase"])
            (world.folder / f"go.{run}").touch()
            while waited["phase"] != "recorded" and world.runs() <= run:
                waited = await becomes(*confirming, "recorded", "recording", "starting")
            if waited["phase"] != "recorded":
                # The next run has begun by now, and waits.
                waited = await becomes(*confirming, "recorded", "recording", "starting")
    assert {"confirm 1 of 4", "confirm 2 of 4"} <= seen, seen
    assert waited["outcome"] == "keep", waited
    world.end()


async def bounded(ar):
    world = World(ar)
    world.close()
    world.value("1.5")
    async with Tools(world) as client:
        started = time.monotonic()
        await client.call("try", description="first")
        assert time.monotonic() - started < 10, "the number comes at once"
        # Another call is answered while one waits, and a cancelled one ends nothing.
        with anyio.move_on_after(1) as scope:
            await client.call("wait", experiment=1)
        assert scope.cancelled_caught
        started = time.monotonic()
        assert (await client.call("wait", experiment=1, seconds=0))["phase"] == "baseline"
        assert time.monotonic() - started < 5
        started = time.monotonic()
        waited = await client.call("wait", experiment=1, seconds=600)
        took = time.monotonic() - started
        assert 24 < took < 30 and waited == {"experiment": 1, "phase": "baseline"}, (took, waited)
        world.open()
        assert (await client.outcome(1))["outcome"] == "keep"
    assert world.runs() == 2
    world.end()


async def errors(ar):
    world = World(ar)
    async with Tools(world) as client:
        await client.fails("status", "no session")
        await client.fails("wait", "no session", experiment=1)
        await client.fails("try", "nothing to try", description="nothing")
        await client.fails("show", "wrong arguments", experiment="x")
        await client.fails("try", "wrong arguments", text="x")
        await client.fails("status", "announces no roots", repository="/")
        world.value("$NOTHING")
        world.git("commit", "-q", "-a", "-m", "broken")
        world.value("1.5")
        world.close()
        assert await client.call("try", description="first") == {"experiment": 1}
        world.open()
        await client.fails("wait", "val_bpb", experiment=1)
        world.git("reset", "-q", "--hard")
        world.value("2.0")
        world.git("commit", "-q", "-a", "-m", "mended")
        world.close()
        world.value("1.5")
        await client.call("try", description="first")
        await client.fails("try", "experiment 1 is still running", "`wait`", description="second")
        world.open()
        assert (await client.outcome(1))["outcome"] == "keep"
        await client.fails("wait", "no experiment 9", experiment=9)
        await client.fails("note", "experiment 9", experiment=9, text="x")
    world.end()
    await stopped(ar)
    await at_work(ar)
    await roots(ar)


async def stopped(ar):
    """`stop` with `now` ends the run and rolls the change back."""
    world = World(ar)
    world.value("1.9")
    async with Tools(world) as client:
        await client.measure("first")
        world.close()
        world.value("1.5")
        await client.call("try", description="second")
        assert "has stopped" in (await client.call("stop", now=True))["done"]
        waited = await client.outcome(2)
        assert waited["phase"] == "stopped" and "outcome" not in waited, waited
        world.open()
        world.value("1.8")
        assert (await client.measure("third"))["outcome"] == "keep"
    world.end()


async def at_work(ar):
    """A loop at work is named, and so are its slots; `stop` stops it."""
    world = World(ar)
    agent = f"{quote(sys.executable)} {quote(str(HERE / 'changes.py'))}"
    world.close()
    loop = subprocess.Popen([ar, "run", "--yes", "--agent", agent, "--slots", "2", "--max-experiments", "2"], cwd=world.repo,
                            env=world.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        async with Tools(world) as client:
            until = time.monotonic() + PATIENCE
            while not world.is_running():
                assert time.monotonic() < until, "the loop does not begin"
                await anyio.sleep(0.05)
            world.value("1.5")
            await client.fails("try", "a loop is active in session night", "`idea`", description="mine")
            await client.call("idea", action="add", text="mine")
            world.git("reset", "-q", "--hard")
            world.open()
            await asyncio.to_thread(loop.wait, PATIENCE)
            world.value("1.5")
            await client.fails("try", "slots", description="mine")
            world.git("reset", "-q", "--hard")
    finally:
        loop.kill()
        loop.wait()
    world.end()


async def roots(ar):
    """A repository elsewhere is worked in only within the client's roots, in both lifecycles."""
    here, there = World(ar), World(ar)
    there.value("1.5")
    there.call("try", "-m", "first")
    for mode in MODES:
        async with Tools(here, roots=[there.folder], mode=mode) as client:
            log = await client.call("log", repository=str(there.repo))
            assert len(log["experiments"]) == 2, log
            await client.fails("log", "outside of the client's roots", repository="/")
            (there.folder / "link").unlink(missing_ok=True)
            (there.folder / "link").symlink_to("/")
            await client.fails("log", "outside of the client's roots", repository=str(there.folder / "link"))
            await client.fails("log", "cannot open", repository=str(there.folder / "nowhere"))
    there.value("1.4")
    async with Tools(here, roots=[there.folder]) as client:
        begun = await client.call("try", description="second", repository=str(there.repo))
        waited = await client.call("wait", repository=str(there.repo), **begun)
        assert waited["outcome"] == "keep", waited
    here.end()
    there.end()


async def inside(ar):
    """The agent of a loop is a client with a bare environment, as some start their servers; also behind walls, where they work."""
    for sandbox in ("off", "auto"):
        world = World(ar, AR_SANDBOX=sandbox)
        said = world.folder / "said"
        agent = f"{quote(sys.executable)} {quote(str(HERE / 'called.py'))} {quote(ar)} {quote(str(said))}"
        await asyncio.to_thread(world.call, "run", "--yes", "--agent", agent, "--max-experiments", "1")
        said = json.loads(said.read_text())
        assert said["names"] == ["brief", "log", "show", "report", "status", "idea", "note"], said
        assert said["log"] == 1, said
        for tool in ("try", "wait", "stop"):
            assert "inside a call of the loop" in said[tool], said
        assert [idea["text"] for idea in world.json("idea", "list")["ideas"]] == ["from inside"]
        assert [note["text"] for note in world.json("show", "0")["notes"]] == ["seen from inside"]
        world.end()


async def two(ar):
    world = World(ar)
    world.value("1.9")
    async with Tools(world) as one, Tools(world) as other:
        await one.measure("first")
        world.close()
        world.value("1.5")
        begun = await asyncio.gather(*(client.call("try", description="same") for client in (one, other)), return_exceptions=True)
        numbers = [answer["experiment"] for answer in begun if isinstance(answer, dict)]
        refused = [str(answer) for answer in begun if not isinstance(answer, dict)]
        assert numbers == [2] and len(refused) == 1 and "error: " in refused[0], begun
        assert (await one.call("wait", experiment=2, seconds=1))["phase"] == "running"
        assert (await other.call("wait", experiment=2, seconds=1))["phase"] == "running"
        await asyncio.gather(*(client.call(tool) for client in (one, other) for tool in ("brief", "log", "report", "status")))
        world.open()
        waited = await asyncio.gather(one.outcome(2), other.outcome(2))
        assert [answer["outcome"] for answer in waited] == ["keep", "keep"], waited
        world.value("1.4")
        assert (await other.measure("by the other"))["experiment"] == 3
    assert world.runs() == 4
    world.end()


async def killed(ar):
    for way in ("wait", "resume", "try --continue", "the server too"):
        world = World(ar)
        world.value("1.9")
        world.call("try", "-m", "first")
        world.close()
        world.value("1.5")
        client = subprocess.Popen([sys.executable, HERE / "called.py", ar], cwd=world.repo, env=world.environment, stdout=subprocess.PIPE,
                                  text=True, start_new_session=True)
        line = await asyncio.to_thread(client.stdout.readline)
        server = json.loads(line)["server"]
        if way == "the server too":
            os.kill(server, signal.SIGKILL)
        client.kill()
        client.wait()
        until = time.monotonic() + 3
        while Path(f"/proc/{server}").exists() and Path(f"/proc/{server}/stat").read_text().split(") ")[1][0] != "Z":
            assert time.monotonic() < until, "the server outlives its client"
            await anyio.sleep(0.02)
        # What a server that is killed does not tell it goes on by itself.
        while (status := world.json("status")["sessions"][0])["owner"] and way != "the server too":
            assert time.monotonic() < until, status
            await anyio.sleep(0.05)
        assert status["attempts"][0]["id"] == 2, status
        world.open()
        if way == "the server too":
            async with Tools(world) as tools:
                assert (await tools.outcome(2))["outcome"] == "keep"
        elif way == "wait":
            async with Tools(world) as tools:
                await tools.fails("try", "experiment 2 of session night is still open", "`wait`", description="another")
                assert (await tools.outcome(2))["outcome"] == "keep"
        else:
            world.call(*way.split())
        assert world.runs() == 3 and world.outcomes() == ["keep"] * 3, (way, world.runs(), world.outcomes())
        world.end()


async def three_ways(ar):
    worlds = [World(ar), World(ar), World(ar)]
    await asyncio.gather(*(way(world) for way, world in zip((by_tools, by_command_line, by_loop), worlds)))
    ledgers = [world.ledger() for world in worlds]
    records = [without_own(world.json("log")["experiments"]) for world in worlds]
    assert len(records[0]) == len(CHANGES) + 1, records[0]
    for other in (1, 2):
        assert ledgers[other] == ledgers[0], (ledgers[0], ledgers[other])
        for one, another in zip(records[0], records[other]):
            assert one == another, {key: (one.get(key), another.get(key)) for key in {*one, *another} if one.get(key) != another.get(key)}
        assert len(records[other]) == len(records[0])
    for world in worlds:
        world.end()


PARTS = [tools, night, phases, bounded, errors, inside, two, killed, three_ways]


def innermost(error):
    """Where it happened, without the groups that the client's tasks put around it."""
    while getattr(error, "exceptions", None):
        error = error.exceptions[0]
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def play(ar, wanted):
    """Plays parts side by side, since most of them wait; returns the exit code."""
    assert signal.getsignal(signal.SIGHUP) != signal.SIG_IGN, "run it without nohup"
    known = {part.__name__: part for part in PARTS}
    chosen = [known[name] for name in wanted] or PARTS

    async def one(part):
        started = time.monotonic()
        try:
            await part(ar)
        except BaseException as error:
            print(f"FAIL {part.__name__}\n{innermost(error)}", flush=True)
            return 1
        print(f"PASS {part.__name__} ({time.monotonic() - started:.0f} s)", flush=True)
        return 0

    async def all_of_them():
        return sum(await asyncio.gather(*map(one, chosen)))
    failed = asyncio.run(all_of_them())
    for world in World.made:
        if world.folder.exists():
            # A part that failed leaves no run that waits, and its repositories to look at.
            world.open()
            print(f"left: {world.folder}")
    return 1 if failed else 0
