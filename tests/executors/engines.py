"""Engines for the tests of the recipes: two hosts behind sshd, both this machine, and a Ray cluster of one node.

Each has the environment that its recipe needs, and can be `away` and `back`. It lives in the folder that it is given.
"""

import os
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

RECIPES = Path(__file__).resolve().parents[2] / "docs" / "recipes"


class Skipped(Exception):
    """What an engine needs cannot be had here."""


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def wait_for(what, condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not after {seconds} s: {what}")
        time.sleep(0.05)
    return found


def processes(name):
    """The processes with a text in their command line or environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if name.encode() in (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found


class Ssh:
    """Three slots on two hosts, each an sshd of its own with keys of its own. The queue's folder has an odd name."""

    name, slots, resources = "ssh", 3, {}

    def __init__(self, folder):
        self.folder, self.servers = folder, {}
        program = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
        if not program:
            raise Skipped("no sshd; on Debian: apt-get install openssh-server")
        self.program = program
        if os.getuid() == 0:
            # Where sshd locks itself in, made by its service otherwise.
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        folder.mkdir(parents=True)
        for key in ("host_key", "key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
        shutil.copy(folder / "key.pub", folder / "authorized_keys")
        # The names are also those of the slots' locks, which all tests on this machine share.
        self.hosts = {f"ar-test-{os.getpid()}-{number}": free_port() for number in (1, 2)}
        config = "".join(f"Host {host}\n  HostName 127.0.0.1\n  Port {port}\n" for host, port in self.hosts.items())
        (folder / "config").write_text(f"{config}Host *\n  IdentityFile {folder}/key\n  IdentitiesOnly yes\n"
                                       f"  UserKnownHostsFile {folder}/known\n  StrictHostKeyChecking no\n")
        self.state = folder / "the queue's $folder = ü"
        self.state.mkdir()
        first, second = self.hosts
        self.environment = {"AR_SSH": f"ssh -F {folder}/config", "AR_SSH_STATE": str(self.state),
                            "AR_HOSTS": f"{first}:2 {second}:1"}
        self.back()

    def back(self, hosts=None):
        for host in hosts or self.hosts:
            port = self.hosts[host]
            options = {"Port": port, "ListenAddress": "127.0.0.1", "HostKey": f"{self.folder}/host_key",
                       "PidFile": "none", "AuthorizedKeysFile": f"{self.folder}/authorized_keys",
                       "StrictModes": "no", "UsePAM": "no", "PasswordAuthentication": "no",
                       "PermitRootLogin": "prohibit-password", "MaxStartups": "100"}
            words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
            with open(self.folder / "sshd.log", "ab") as log:
                self.servers[host] = subprocess.Popen([self.program, "-D", "-e", "-f", os.devnull, *words], stderr=log)
            wait_for(f"sshd of {host}", lambda: answers(port))

    def away(self, hosts=None):
        for host in hosts or list(self.servers):
            server = self.servers.pop(host)
            server.terminate()
            server.wait()

    def end(self):
        self.away()
        locks = Path(f"/tmp/ar-slots-{os.getuid()}")
        for host in self.hosts:
            for lock in locks.glob(f"{host}-*"):
                lock.unlink()


class Proxy(socketserver.ThreadingTCPServer):
    """Stands before a port, so that this can be away."""

    allow_reuse_address, daemon_threads = True, True

    def __init__(self, port, target):
        self.target = target
        super().__init__(("127.0.0.1", port), Forward)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Forward(socketserver.BaseRequestHandler):
    def handle(self):
        with socket.create_connection(("127.0.0.1", self.server.target)) as target:
            thread = threading.Thread(target=copied, args=(self.request, target), daemon=True)
            thread.start()
            copied(target, self.request)


def copied(source, target):
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


class Ray:
    """A head with three processors. AR_TEST_RAY names a virtual environment to use, made with Ray if it is missing."""

    name, slots, resources = "ray", 3, {"cpus": 1}

    def __init__(self, folder):
        folder.mkdir(parents=True)
        self.folder, self.proxy = folder, None
        self.program = self.installed(Path(os.environ.get("AR_TEST_RAY") or folder / "venv"))
        self.target, self.port = free_port(), free_port()
        self.environment = {"RAY_API_SERVER_ADDRESS": f"http://127.0.0.1:{self.port}", "no_proxy": "127.0.0.1"}
        self.start_head()
        self.back()

    def start_head(self):
        # Ray's sockets have paths, which must be short.
        self.temp = Path(f"/tmp/ar-ray-{os.getpid()}")
        environment = {**os.environ, "RAY_JOB_START_TIMEOUT_SECONDS": "600", "RAY_USAGE_STATS_ENABLED": "0",
                       "AR_TEST_HEAD": str(self.temp)}
        words = ["start", "--head", "--block", "--num-cpus=3", "--num-gpus=0", "--include-dashboard=true", "--port=0",
                 "--dashboard-host=127.0.0.1", f"--dashboard-port={self.target}", f"--temp-dir={self.temp}",
                 "--node-ip-address=127.0.0.1", "--object-store-memory=100000000", "--disable-usage-stats"]
        with open(self.folder / "head.log", "ab") as log:
            self.head = subprocess.Popen([self.program, *words], env=environment, stdout=log, stderr=log,
                                         cwd=self.folder, start_new_session=True)
        try:
            wait_for("Ray's dashboard", self.serves, 120)
        except BaseException:
            self.end()
            raise

    def stop_head(self):
        # Ends the processes of the head when it gets a TERM.
        self.head.terminate()
        try:
            self.head.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.head.pid, signal.SIGKILL)
            self.head.wait()
        # Some of the dashboard's processes may outlive it. A job's own shell ends at its TERM.
        time.sleep(2)
        for pid in processes(f"AR_TEST_HEAD={self.temp}"):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.temp, ignore_errors=True)

    @staticmethod
    def installed(venv):
        program = venv / "bin" / "ray"
        if not program.exists():
            print(f"ray: installing it into {venv}", flush=True)
            made = subprocess.run([sys.executable, "-m", "venv", venv]).returncode == 0
            done = made and subprocess.run([venv / "bin" / "pip", "install", "-q", "ray[default]"]).returncode == 0
            if not done:
                raise Skipped('no Ray: pip install "ray[default]" failed')
        return program

    def serves(self):
        if self.head.poll() is not None:
            raise AssertionError((self.folder / "head.log").read_text()[-2000:])
        try:
            return urlopen(f"http://127.0.0.1:{self.target}/api/jobs/", timeout=5).status == 200
        except OSError:
            return False

    def back(self):
        self.proxy = Proxy(self.port, self.target)

    def away(self):
        self.proxy.shutdown()
        self.proxy.server_close()
        self.proxy = None

    def end(self):
        if self.proxy:
            self.away()
        self.stop_head()


ENGINES = {"ssh": Ssh, "ray": Ray}
