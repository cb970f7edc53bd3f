"""What the program weighs, and what a call of it costs before it does anything.

A call is timed from its start by this script to the end of the process, with its output to `/dev/null`. `true` is measured
beside it and told in the note, since that much is what any process costs here. The archiver call is `ar t` of a small library,
once by the archiver and once by this program in front of it, which becomes the archiver. Both must print the same.
"""

import os
import shutil
import statistics
import subprocess
import time

from frame import ENVIRONMENT, Row, Unequal, alternate, called

CALLS = 20


def milliseconds(*command):
    """The median over some calls of one command."""
    command = [str(word) for word in command]
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    took = []
    for _ in range(CALLS):
        begun = time.perf_counter()
        child = os.posix_spawn(command[0], command, ENVIRONMENT, file_actions=quiet)
        _, status = os.waitpid(child, 0)
        took.append((time.perf_counter() - begun) * 1000)
        if status:
            raise SystemExit(f"{' '.join(command)} failed with {os.waitstatus_to_exitcode(status)}")
    return statistics.median(took)


def rows(context):
    rounds = 1 if context.short else 15
    yield Row("the program, stripped", [context.ar.stat().st_size / 1e6], [], "", "MB", 18, "10^6 bytes")
    if context.ar.name != "ar":
        raise Unequal("archiver calls are passed through by a program that is called `ar`")
    nothing = shutil.which("true")
    ours, floor = alternate(rounds, lambda: milliseconds(context.ar, "--version"), lambda: milliseconds(nothing))
    note = (f"`ar --version` also asks the archiver for its version, as build systems look for it; `true` takes "
            f"{statistics.median(floor):.2f} ms here")
    yield Row("start-up, `ar --version`", ours, [], "", "ms", 5, note)
    archiver = shutil.which("ar")
    if archiver is None or not shutil.which("cc"):
        context.skip("an archiver call passed through", "no archiver, or no C compiler")
        return
    library = context.folder / "lib.a"
    for name in ("one", "two"):
        (context.folder / f"{name}.c").write_text(f"int {name}(void) {{ return 1; }}\n")
        subprocess.run(["cc", "-c", f"{name}.c"], cwd=context.folder, check=True)
    called([archiver, "rcs", library, "one.o", "two.o"], context.folder)
    if called([context.ar, "t", library], context.folder) != called([archiver, "t", library], context.folder):
        raise Unequal("what the archiver prints")
    ours, theirs = alternate(rounds, lambda: milliseconds(context.ar, "t", library),
                             lambda: milliseconds(archiver, "t", library))
    more = [one - other for one, other in zip(ours, theirs)]
    yield Row("an archiver call passed through, more than the archiver itself", more, [], "", "ms", 2,
              f"the archiver by itself takes {statistics.median(theirs):.2f} ms")
