"""A job of these tests: `job.py LINES TOKEN SECONDS EXIT`.

Like a shim, it leaves the session of whatever started it and ends by itself after a TERM. It appends to the file LINES
when it starts, gets a TERM and ends, each time with its token, its process and the time.
"""

import json
import os
import signal
import sys
import time


def note(word):
    line = json.dumps({"word": word, "token": token, "pid": os.getpid(), "at": time.time(), "cwd": os.getcwd(),
                       "env": {name: value for name, value in os.environ.items() if name.startswith("ODD")}})
    file = os.open(lines, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, f"{line}\n".encode())
    os.close(file)


def end(*_):
    note("term")
    sys.exit(3)


lines, token, seconds, code = sys.argv[1:]
# Fails for the leader of a process group.
os.setsid()
signal.signal(signal.SIGTERM, end)
note("start")
print(f"this is {token}", flush=True)
time.sleep(float(seconds))
note("end")
sys.exit(int(code))
