"""Runs a command on a terminal of its own, and takes that terminal away.

usage: terminal.py MODE FOLDER COMMAND...

MODE is a list of words: `nohup` has hang-ups ignored, `frozen` stops all output as Ctrl-S does and reads none,
`background` runs the command in the background of a terminal on which that may not write. When a file `close` appears
in FOLDER, the terminal is closed. What became of the command is printed: its exit status, or the signal that ended or
stopped it. A command that does not end is killed after a minute.
"""

import os
import pty
import select
import signal
import sys
import termios
import time

mode, folder, command = sys.argv[1].split(","), sys.argv[2], sys.argv[3:]


def run():
    if "nohup" in mode:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if "background" in mode:
        state = termios.tcgetattr(0)
        state[3] |= termios.TOSTOP
        termios.tcsetattr(0, termios.TCSANOW, state)
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            os.execvp(command[0], command)
        _, status = os.waitpid(child, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            os.kill(child, signal.SIGKILL)
            os._exit(77)
        os._exit(os.waitstatus_to_exitcode(status) & 255)
    os.execvp(command[0], command)


child, terminal = pty.fork()
if child == 0:
    run()
if "frozen" in mode:
    os.write(terminal, b"\x13")
deadline = time.monotonic() + 60
done = 0
while not done:
    if time.monotonic() > deadline:
        os.kill(child, signal.SIGKILL)
    if terminal is None:
        time.sleep(0.02)
    elif os.path.exists(os.path.join(folder, "close")):
        os.close(terminal)
        terminal = None
    elif select.select([] if "frozen" in mode else [terminal], [], [], 0.02)[0]:
        try:
            os.read(terminal, 65536)
        except OSError:
            pass
    done, status = os.waitpid(child, os.WNOHANG)
print(os.waitstatus_to_exitcode(status))
