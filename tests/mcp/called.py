"""A client as a process of its own. With a file: the agent of a loop, which notes what it may do. Without: it begins an experiment,
says which process its server is, and waits for ever."""
import asyncio
import json
import os
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters


async def agent(ar, said):
    found = {}
    # The client passes on next to nothing of its environment.
    async with Client(StdioServerParameters(command=ar, args=["mcp"])) as client:
        found["names"] = [tool.name for tool in (await client.list_tools()).tools]
        found["log"] = len((await client.call_tool("log", {})).structured_content["experiments"])
        for tool, args in (("try", {"description": "x"}), ("wait", {"experiment": 0}), ("stop", {})):
            found[tool] = (await client.call_tool(tool, args)).content[0].text
        await client.call_tool("idea", {"action": "add", "text": "from inside"})
        await client.call_tool("note", {"experiment": 0, "text": "seen from inside"})
    Path(said).write_text(json.dumps(found))
    Path("model.sh").write_text("VAL=1.5\n")


async def begin(ar):
    async with Client(StdioServerParameters(command=ar, args=["mcp"], env=dict(os.environ))) as client:
        await client.call_tool("try", {"description": "second"})
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        print(json.dumps({"server": int(children[0])}), flush=True)
        await client.call_tool("wait", {"experiment": 2})


if __name__ == "__main__":
    asyncio.run(agent(*sys.argv[1:]) if len(sys.argv) > 2 else begin(*sys.argv[1:]))
