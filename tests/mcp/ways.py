"""The same night by tools, by the command line, and by a loop that calls an agent."""
import re
import sys
from shlex import quote

from changes import CHANGES, make
from world import HERE, Tools

# What depends on the time, on the commits before, or on who called whom.
OWN = {"commit", "base", "start", "started", "finished", "waits", "created", "seconds", "agent", "agent_preset", "max_experiments", "proposal"}


def without_own(value):
    if isinstance(value, dict):
        return {key: without_own(part) for key, part in value.items() if key not in OWN}
    if isinstance(value, list):
        return [without_own(part) for part in value]
    return re.sub(r"after [0-9.]+ s", "after … s", value) if isinstance(value, str) else value


async def by_tools(world):
    async with Tools(world) as tools:
        for number in range(1, len(CHANGES) + 1):
            if number > 1:
                await tools.call("brief")
            description, direction = make(number, world.repo)
            waited = await tools.measure(description, direction=direction)
            assert waited["phase"] == "recorded" and waited["experiment"] == number, waited
            world.git("reset", "-q", "--hard")


async def by_command_line(world):
    for number in range(1, len(CHANGES) + 1):
        if number > 1:
            world.call("brief")
        description, direction = make(number, world.repo)
        world.call("try", "-m", description, "--direction", direction)
        world.git("reset", "-q", "--hard")


async def by_loop(world):
    agent = f"{quote(sys.executable)} {quote(str(HERE / 'changes.py'))}"
    # The one that is refused without a run does not count.
    world.call("run", "--yes", "--agent", agent, "--max-experiments", str(len(CHANGES) - 1))
