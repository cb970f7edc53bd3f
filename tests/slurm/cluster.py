"""A real Slurm in one folder, for tests: a controller, two nodes that live on this machine, munge, and GPUs that are only counted.

    cluster = Cluster("/tmp/sl")
    cluster.start()                     # two to four seconds
    try:
        subprocess.run(["sbatch", "--wrap", "true"], env=cluster.environment())
    finally:
        cluster.stop()

Everything is below the folder, and the ports are free ones, so that several clusters can be up at once. The daemons run as whoever starts
them, and only that user's jobs can. Clients find the cluster by SLURM_CONF. Needs Python 3.9.
"""
import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
import time

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CLIENTS = ("sbatch", "squeue", "sacct", "scancel", "scontrol")
NEEDED = {"slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client", "munged": "munge"}
NEEDED_TO_ACCOUNT = {"slurmdbd": "slurmdbd", "mariadbd": "mariadb-server"}


class Broken(Exception):
    """The cluster does not do what a test relies on."""


def install(accounting=False):
    """Installs what this machine lacks, with apt. Gives None, or why there can be no cluster."""
    def lacking():
        wanted = dict(NEEDED, **(NEEDED_TO_ACCOUNT if accounting else {}))
        return sorted(package for program, package in wanted.items() if not shutil.which(program, path=SYSTEM_PATH))
    if not lacking():
        return None
    if os.geteuid() or not shutil.which("apt-get"):
        return f"{', '.join(lacking())} not installed, and this is not root on a system with apt"
    # In run level 1 the packages start no daemons of their own.
    quiet = dict(os.environ, DEBIAN_FRONTEND="noninteractive", RUNLEVEL="1")
    get = ["apt-get", "-qy", "-o", "DPkg::Lock::Timeout=60", "--no-install-recommends"]
    try:
        for command in (["install", *lacking()], ["update"], ["install", *lacking()]):
            done = subprocess.run(get + command, env=quiet, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240)
            if not lacking():
                return None
    except subprocess.TimeoutExpired:
        return "apt-get took too long"
    return f"apt-get gave no {', '.join(lacking())}: {' '.join(done.stderr.split())[-160:]}"


def until(condition, seconds, step=0.1):
    """Waits for a condition; gives what it last said."""
    end = time.monotonic() + seconds
    while not (said := condition()) and time.monotonic() < end:
        time.sleep(step)
    return said


def processes(mark):
    """{pid: (command line, environment)} of all that names `mark`, a path, in its command line, its environment or its folder."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as line, open(f"/proc/{entry}/environ", "rb") as variables:
                command, environment = line.read(), variables.read()
            where = os.fsencode(os.readlink(f"/proc/{entry}/cwd"))
        except OSError:
            continue
        if command and int(entry) != os.getpid() and os.fsencode(mark) in b"\0".join((command, environment, where)):
            found[int(entry)] = command.replace(b"\0", b" ").decode(errors="replace").strip(), environment.split(b"\0")
    return found


def kill(pids):
    """Kills processes, as a machine that loses its power does."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Daemon:
    """A process that stays in the foreground, in a session of its own."""

    def __init__(self, command, folder, log, environment):
        self.command, self.folder, self.log, self.environment, self.process = command, folder, log, environment, None

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, start_new_session=True)

    def runs(self):
        return self.process is not None and self.process.poll() is None

    def end(self, gently=True, patience=5):
        """Ends it, at once or in its own time, and by force after that."""
        if not self.runs():
            return
        if gently:
            self.process.terminate()
            try:
                self.process.wait(patience)
                return
            except subprocess.TimeoutExpired:
                pass
        self.process.kill()
        self.process.wait()


class Cluster:
    """Two nodes, `n1` and `n2`. Jobs of the partition `urgent` put those of `batch`, the default one, back into the queue.

    `requeue_wait` is how long a requeued job waits before it may start again, for which Slurm takes two minutes by itself, and
    `forget_after` the seconds for which `squeue -t all` knows a job that is over."""

    NODES, CPUS, GPUS = ("n1", "n2"), 8, 4

    def __init__(self, folder, accounting=False, requeue_wait=5, forget_after=60):
        self.folder, self.accounting, self.requeue_wait, self.forget_after = os.path.abspath(folder), accounting, requeue_wait, forget_after
        self.conf, self.daemons = f"{self.folder}/slurm.conf", {}
        self.variables = {"PATH": SYSTEM_PATH, "HOME": self.folder, "LC_ALL": "C", "SLURM_CONF": self.conf}

    def environment(self, wrappers=None, **more):
        """What a client needs: with `wrappers`, it meets those before Slurm's own commands."""
        path = more.get("PATH", SYSTEM_PATH)
        return dict(self.variables, **dict(more, PATH=f"{wrappers.folder}:{path}" if wrappers else path))

    def ask(self, *command, patience=10):
        """What a client prints on its standard output, or None where it fails."""
        try:
            done = subprocess.run(list(map(str, command)), cwd=self.folder, env=self.variables, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=patience)
        except subprocess.TimeoutExpired:
            return None
        return done.stdout if done.returncode == 0 else None

    # Up and down.

    def start(self):
        if len(self.folder) > 70:
            raise Broken(f"a socket below {self.folder} would have too long a path")
        for name in ("state", "log", "dev", *(f"spool/{node}" for node in self.NODES)):
            os.makedirs(f"{self.folder}/{name}")
        self.write_settings()
        try:
            at = self.folder
            # Below /tmp, where others may write, munged insists on --force.
            self.daemon("munged", "munged", "--foreground", "--force", f"--key-file={at}/munge.key", f"--socket={at}/munge",
                        f"--pid-file={at}/state/munged.pid", f"--seed-file={at}/state/munged.seed", f"--log-file={at}/log/munged")
            if not until(lambda: os.path.exists(f"{at}/munge"), 10):
                raise Broken(f"munged does not start: {self.end_of('munged')}")
            if self.accounting:
                self.start_accounting()
            self.daemon("slurmctld", "slurmctld", "-D", "-f", self.conf)
            for node in self.NODES:
                # Step daemons inherit the folder, by which they are told apart.
                self.daemon(node, "slurmd", "-D", "-N", node, "-f", self.conf, folder=f"{at}/spool/{node}")
            if not until(lambda: all(state == "idle" for state in self.node_states().values()), 30):
                raise Broken(f"nodes are {self.node_states()}: {self.end_of('slurmctld')} / {self.end_of('n1')}")
        except BaseException:
            self.stop()
            raise

    def stop(self):
        """Ends all of it. Gives the command lines of jobs that were left."""
        self.ask("scancel", "--user", getpass.getuser(), patience=3)
        until(lambda: not self.of_jobs(), 3)
        left = sorted(self.of_jobs().values())
        for daemon in reversed(list(self.daemons.values())):
            daemon.end()
        until(lambda: kill(processes(self.conf)) or not processes(self.conf), 5)
        return left

    def daemon(self, name, *command, folder=None):
        self.daemons[name] = Daemon(command, folder or self.folder, f"{self.folder}/log/{name}.out", self.variables)
        self.daemons[name].start()

    def start_accounting(self):
        """A database that lets everybody in from this machine, slurmdbd before it, and this cluster in it."""
        made = subprocess.run(["mariadb-install-db", "--no-defaults", f"--datadir={self.folder}/db", f"--user={getpass.getuser()}",
                               "--skip-test-db"], env=self.variables, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if made.returncode:
            raise Broken(f"mariadb-install-db fails: {made.stderr[-200:]}")
        self.daemon("mariadbd", "mariadbd", "--no-defaults", f"--datadir={self.folder}/db", f"--user={getpass.getuser()}",
                    "--skip-grant-tables", "--bind-address=127.0.0.1", f"--port={self.ports['mariadbd']}", f"--socket={self.folder}/sql",
                    "--innodb-flush-log-at-trx-commit=0", "--innodb-lock-wait-timeout=900", "--innodb-buffer-pool-size=64M")
        if not until(lambda: os.path.exists(f"{self.folder}/sql"), 20):
            raise Broken(f"mariadbd does not start: {self.end_of('mariadbd')}")
        self.daemon("slurmdbd", "slurmdbd", "-D")
        added = until(lambda: self.ask("sacctmgr", "-i", "add", "cluster", "test") is not None, 20, 0.3)
        if not added or self.ask("sacctmgr", "-i", "add", "account", "all") is None:
            raise Broken(f"slurmdbd does not start: {self.end_of('slurmdbd')}")
        self.ask("sacctmgr", "-i", "add", "user", getpass.getuser(), "account=all")

    def end_of(self, daemon):
        with open(f"{self.folder}/log/{daemon}.out", errors="replace") as log:
            return " ".join(log.read().split())[-300:]

    def write(self, name, text, mode=0o644):
        with open(os.open(f"{self.folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())

    def write_settings(self):
        # All sockets are open until the last port is known, so that no port is given twice.
        names, sockets = ["slurmctld", "slurmdbd", "mariadbd", *self.NODES], [socket.create_server(("127.0.0.1", 0)) for _ in range(5)]
        self.ports = {name: it.getsockname()[1] for name, it in zip(names, sockets)}
        for it in sockets:
            it.close()
        at, host, user = self.folder, socket.gethostname().split(".")[0], getpass.getuser()
        self.write("munge.key", os.urandom(64), 0o400)
        # A GPU is any character device, also by a link; the number in its name becomes CUDA_VISIBLE_DEVICES.
        for number in range(self.GPUS):
            os.symlink(os.devnull, f"{at}/dev/gpu{number}")
        self.write("gres.conf", f"AutoDetect=off\nNodeName={','.join(self.NODES)} Name=gpu File={at}/dev/gpu[0-{self.GPUS - 1}]\n")
        self.write("cgroup.conf", "CgroupAutomount=no\n")
        if self.accounting:
            # It may hold a password, and slurmdbd insists on these rights.
            self.write("slurmdbd.conf", render({
                "AuthType": "auth/munge", "AuthInfo": f"socket={at}/munge", "DbdHost": "localhost", "DbdAddr": "127.0.0.1",
                "DbdPort": self.ports["slurmdbd"], "SlurmUser": user, "PidFile": f"{at}/state/slurmdbd.pid",
                "StorageType": "accounting_storage/mysql", "StorageHost": "127.0.0.1", "StoragePort": self.ports["mariadbd"],
                "StorageUser": "root", "StorageLoc": "accounts"}), 0o600)
        settings = {
            "ClusterName": "test", "SlurmctldHost": f"{host}(127.0.0.1)", "SlurmctldPort": self.ports["slurmctld"],
            "SlurmUser": user, "SlurmdUser": user, "AuthType": "auth/munge", "CredType": "cred/munge",
            "AuthInfo": f"socket={at}/munge,cred_expire={self.requeue_wait}",
            "StateSaveLocation": f"{at}/state", "SlurmdSpoolDir": f"{at}/spool/%n",
            "SlurmctldPidFile": f"{at}/state/slurmctld.pid", "SlurmdPidFile": f"{at}/state/%n.pid",
            # Without cgroups, and with more processors than there are, it works in any container.
            "ProctrackType": "proctrack/linuxproc", "TaskPlugin": "task/none", "JobAcctGatherType": "jobacct_gather/none",
            "SlurmdParameters": "config_overrides", "MailProg": "/bin/true",
            # What is free is given to whoever asks, and at once; with LLN, on the node with less to do.
            "SelectType": "select/cons_tres", "SelectTypeParameters": "CR_Core", "GresTypes": "gpu",
            "SchedulerType": "sched/backfill",
            "SchedulerParameters": "batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1",
            # A test has no minutes to wait.
            "SlurmctldTimeout": 10, "SlurmdTimeout": 5, "MessageTimeout": 5, "TCPTimeout": 2, "KillWait": 2, "InactiveLimit": 0,
            "MinJobAge": self.forget_after, "ReturnToService": 2,
            "JobRequeue": 1, "PreemptType": "preempt/partition_prio", "PreemptMode": "REQUEUE",
            "AccountingStorageType": "accounting_storage/none",
        }
        if self.accounting:
            settings.update({"AccountingStorageType": "accounting_storage/slurmdbd", "AccountingStorageHost": "127.0.0.1",
                             "AccountingStoragePort": self.ports["slurmdbd"], "AccountingStoragePass": f"{at}/munge"})
        nodes = "".join(f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={self.ports[node]} CPUs={self.CPUS} "
                        f"RealMemory=1000 Gres=gpu:{self.GPUS}\n" for node in self.NODES)
        self.write("slurm.conf", render(settings) + nodes +
                   "PartitionName=batch Nodes=ALL Default=YES DefaultTime=10 PriorityTier=1 LLN=YES\n"
                   "PartitionName=urgent Nodes=ALL DefaultTime=10 PriorityTier=9 PreemptMode=OFF\n")

    # What is there.

    def node_states(self):
        """{name: state}, as `idle`, `mixed` or `drained`, without Slurm's marks; empty where the controller does not answer."""
        lines = (self.ask("sinfo", "-hN", "-p", "batch", "-o", "%N %T", patience=5) or "").splitlines()
        return {node: "?" for node in self.NODES} | {node: state.rstrip("*~#$!%@^-") for node, state in map(str.split, lines)}

    def queue(self, form="%i %T %P %j", *more):
        """The words of each line of `squeue`, of all that is not over; None where it fails."""
        said = self.ask("squeue", "-ha", "-o", form, *more)
        return None if said is None else [line.split() for line in said.splitlines()]

    def put_back(self):
        """The numbers of all jobs that the controller ever put back into its queue."""
        with open(f"{self.folder}/log/slurmctld.out", errors="replace") as log:
            return set(re.findall(r"Requeuing JobId=(\d+)", log.read()))

    def of_jobs(self):
        """{pid: command line} of step daemons, of what they started and of what is left of that."""
        ours = {daemon.process.pid for daemon in self.daemons.values() if daemon.runs()}
        return {pid: command for pid, (command, variables) in processes(self.folder).items() if pid not in ours and (
            command.startswith("slurmstepd") or any(it.startswith(b"SLURMD_NODENAME=") for it in variables))}

    def step_daemons(self, node):
        place = f"{self.folder}/spool/{node}"
        return [pid for pid, (command, _) in processes(place).items() if command.startswith("slurmstepd") and folder_of(pid) == place]

    def payload(self, node):
        """What jobs of a node started."""
        return [pid for pid, (_, variables) in processes(self.folder).items() if f"SLURMD_NODENAME={node}".encode() in variables]

    # Faults.

    def stop_controller(self, forget=False):
        """Jobs run on and clients fail. Killed, it forgets what it has not written yet, which it does every five seconds: a job that was
        submitted shortly before is unknown to it afterwards, is killed once its node reports it, and its number is given again."""
        self.daemons["slurmctld"].end(gently=not forget)

    def start_controller(self):
        self.daemons["slurmctld"].start()
        return until(lambda: self.ask("scontrol", "ping", patience=3) is not None, 20, 0.3)

    def lose_node(self, node, noticed=True):
        """The power of a node fails. The controller is told, or finds out within a quarter of a minute."""
        self.daemons[node].end(gently=False)
        kill(self.step_daemons(node) + self.payload(node))
        if noticed:
            self.ask("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=lost")

    def bring_back(self, node):
        if not self.daemons[node].runs():
            self.daemons[node].start()
        return until(lambda: self.node_states()[node] in ("idle", "mixed", "allocated", "completing"), 20, 0.3)

    def kill_step_daemons(self, node):
        """Kills those alone; what they watched runs on."""
        pids = self.step_daemons(node)
        kill(pids)
        return pids

    def drain(self, node):
        return self.ask("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")

    def resume(self, node):
        return self.ask("scontrol", "update", f"NodeName={node}", "State=RESUME")

    def requeue(self, job):
        return self.ask("scontrol", "requeue", job)

    def start_now(self, job):
        """Shortens the wait of a job that was requeued."""
        return self.ask("scontrol", "update", f"JobId={job}", "StartTime=now")

    def cancel(self, job):
        return self.ask("scancel", job)

    def preempt(self, node, seconds=1):
        """An urgent job takes a whole node for so long."""
        return self.ask("sbatch", "--parsable", "-p", "urgent", "-J", "urgent", "-w", node, "-n", self.CPUS, "-o", "/dev/null",
                        "--wrap", f"sleep {seconds}")


def render(settings):
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def folder_of(pid):
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return None


WRAPPER = r"""#!/bin/sh
# Stands before Slurm's command of this name: notes the call, and does as the oldest plan for this command says.
here=@HERE@
name=${0##*/}
now=$(date +%s)
echo "$now $name $*" >>"$here/log/calls"
mode=
for plan in "$here/plans/$name".*; do
    read -r mode end <"$plan" || break
    [ -z "$end" ] || [ "$now" -ge "$end" ] || break
    # For one call, or over: whoever removes it has it.
    rm "$plan" && [ -z "$end" ] && break
    mode=
done 2>/dev/null
[ -z "$mode" ] || echo "$now $name $mode" >>"$here/log/dealt"
case $mode in
    "") exec @REAL@ "$@" ;;
    late) @REAL@ "$@" >/dev/null 2>&1; echo "$name: error: Socket timed out on send/recv operation" >&2; exit 1 ;;
    fail) echo "$name: error: Unable to contact slurm controller (connect failure)" >&2; exit 1 ;;
    empty) exit 0 ;;
    hang) exec sleep 45 ;;
    slow) sleep 3; exec @REAL@ "$@" ;;
    cut) @REAL@ "$@" | head -c 30 ;;
esac
"""


class Wrappers:
    """A folder for the PATH, with commands that stand before Slurm's own. They count calls and go wrong as planned:

    `late` (done, but the answer is a timeout), `fail`, `empty` (success without a word), `hang`, `slow`, `cut` (the answer's beginning)."""

    def __init__(self, folder):
        self.folder, self.planned = os.path.abspath(folder), 0
        for name in ("", "plans", "log"):
            os.makedirs(f"{self.folder}/{name}", exist_ok=True)
        for name in CLIENTS:
            path = f"{self.folder}/{name}"
            with open(path, "w") as file:
                file.write(WRAPPER.replace("@HERE@", self.folder).replace("@REAL@", shutil.which(name, path=SYSTEM_PATH)))
            os.chmod(path, 0o755)

    def plan(self, name, mode, calls=1, seconds=None):
        """Lets the next calls go wrong, or all of the next seconds."""
        for _ in range(1 if seconds else calls):
            self.planned += 1
            hidden, shown = (f"{self.folder}/plans/{dot}{name}.{self.planned:06}" for dot in (".", ""))
            with open(hidden, "w") as file:
                file.write(f"{mode} {int(time.time()) + seconds}\n" if seconds else f"{mode}\n")
            os.rename(hidden, shown)

    def clear(self):
        for name in os.listdir(f"{self.folder}/plans"):
            try:
                os.remove(f"{self.folder}/plans/{name}")
            except FileNotFoundError:
                pass

    def calls(self, name):
        return self.count("calls", name)

    def dealt(self, name):
        """How many calls went wrong as planned."""
        return self.count("dealt", name)

    def count(self, log, name):
        try:
            with open(f"{self.folder}/log/{log}", errors="replace") as file:
                return sum(line.split(" ")[1:2] == [name] and line.split(" ")[0].isdigit() for line in map(str.rstrip, file))
        except FileNotFoundError:
            return 0
