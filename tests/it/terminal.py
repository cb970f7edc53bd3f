"""Runs a command on a terminal of its own, plays the person at it, and takes that terminal away.

usage: terminal.py MODE FOLDER COMMAND...

MODE is a list of words: `nohup` has hang-ups ignored, `frozen` stops all output as Ctrl-S does and reads none,
`background` runs the command in the background of a terminal on which that may not write, and `screen` writes all that the
terminal gets to the file `screen` in FOLDER. When a file `close` appears there, the terminal is closed; `keys` is typed,
`size` has the lines and columns that it gets, `signal` the number of a signal. What became of the command is printed: its
exit status, or the signal that ended or stopped it, and with `screen` whether the terminal is as it was. A command that
does not end is killed after five minutes.
"""

import fcntl
import os
import pty
import select
import signal
import struct
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


def asked(name):
    """What a file in FOLDER says, once."""
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return None
    # What is put there from now on is another one.
    os.rename(path, path + ".taken")
    with open(path + ".taken", "rb") as file:
        return file.read()


is_ready, ready = os.pipe()
child, terminal = pty.fork()
if child == 0:
    # Until the size is set, and the terminal is known as it was before.
    os.close(ready)
    os.read(is_ready, 1)
    os.close(is_ready)
    run()
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
before = termios.tcgetattr(terminal)
os.close(is_ready)
os.close(ready)
screen = open(os.path.join(folder, "screen"), "ab", buffering=0) if "screen" in mode else None
if "frozen" in mode:
    os.write(terminal, b"\x13")
deadline = time.monotonic() + 300
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
            got = os.read(terminal, 65536)
            if screen:
                screen.write(got)
        except OSError:
            pass
    if screen and terminal is not None:
        if keys := asked("keys"):
            os.write(terminal, keys)
        if size := asked("size"):
            rows, columns = map(int, size.split())
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if number := asked("signal"):
            os.kill(child, int(number))
    done, status = os.waitpid(child, os.WNOHANG)
if screen and terminal is not None:
    # What the command printed last may still be on its way.
    try:
        while select.select([terminal], [], [], 0)[0] and (got := os.read(terminal, 65536)):
            screen.write(got)
    except OSError:
        pass
said = [str(os.waitstatus_to_exitcode(status))]
if screen and terminal is not None:
    said.append("as it was" if termios.tcgetattr(terminal) == before else "changed")
print(*said)
