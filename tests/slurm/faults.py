"""Faults of a cluster and of the loop on it, one after the other, and whether one can have ended an execution."""
import collections
import random
import subprocess
import threading
import time

from cluster import Broken

# How long a job must be unknown before it counts as lost, in seconds; less than that squeue may lie.
LOST_AFTER, LIE = 10, 5

# Kinds that end jobs, or what runs in them, before its time.
ENDING = ("controller_crashed", "node_", "step_daemons_killed", "requeued", "preempted", "cancelled")

Fault = collections.namedtuple("Fault", "kind began ended node job", defaults=(None, None))


class Faults(threading.Thread):
    """Deals one fault after the other, each as often as the others, at times and in an order that the seed decides."""

    LOOP = ["loop_killed", "loop_killed"]
    CLUSTER = ["controller_restarted", "controller_crashed", "node_lost", "node_lost_unseen", "node_blinked", "step_daemons_killed",
               "drained", "requeued", "requeued_and_hurried", "requeued_and_hurried", "preempted", "cancelled", "cancelled",
               "sbatch late", "sbatch late", "sbatch fail", "sbatch slow", "squeue fail", "squeue empty", "squeue hang", "squeue cut",
               "squeue slow", "loop_moved"]
    ACCOUNTING = ["sacct fail", "sacct empty", "sacct hang"]

    def __init__(self, night, seconds):
        super().__init__(name="faults")
        self.seconds = seconds
        self.night, self.cluster, self.wrappers = night, night.cluster, night.wrappers
        self.random, self.over, self.dealt, self.later, self.out = random.Random(night.options.seed), threading.Event(), [], [], set()
        self.kinds = list(self.LOOP) + (self.CLUSTER if self.cluster else []) + (self.ACCOUNTING if night.options.accounting else [])
        self.lied, self.error = 0.0, None
        renamed = subprocess.run(["unshare", "--uts", "hostname", "other"], capture_output=True).returncode == 0
        if not renamed or "--take-over" not in night.call("resume", "--help").stdout:
            self.kinds = [kind for kind in self.kinds if kind != "loop_moved"]

    def run(self):
        bag, end = [], time.monotonic() + self.seconds
        try:
            while not self.over.wait(self.random.uniform(0.5, 3.5)) and time.monotonic() < end \
                    and self.night.rows() < self.night.options.experiments - 8:
                self.do_later(time.monotonic())
                bag = bag or self.random.sample(self.kinds, len(self.kinds))
                # What finds nothing to hit is not dealt.
                if self.night.rows() > 0 and (fault := self.deal(bag.pop())):
                    self.dealt.append(fault)
                    with open(f"{self.night.folder}/faults", "a") as file:
                        print(*fault, file=file)
            if self.cluster:
                self.heal()
        except Exception as error:  # noqa: BLE001 - told by the main thread
            self.error = error

    def deal(self, kind):
        command, _, mode = kind.partition(" ")
        return self.goes_wrong(kind, command, mode) if mode else getattr(self, kind)()

    def do_later(self, now):
        for due in [it for it in self.later if it[0] <= now]:
            self.later.remove(due)
            due[1]()

    def heal(self):
        """Ends what faults left, as an operator would: the rest of the night must come to its end."""
        self.wrappers.clear()
        self.do_later(float("inf"))
        if not self.cluster.daemons["slurmctld"].runs():
            self.cluster.start_controller()
        self.undrain()
        for job, *reason in self.cluster.queue("%i %r", "-t", "PD") or []:
            if "held" in " ".join(reason).lower():
                self.cluster.ask("scontrol", "release", job)

    def undrain(self):
        for node, state in self.cluster.node_states().items():
            if state.startswith("drain") and node not in self.out:
                self.cluster.resume(node)

    def fault(self, kind, lasts=1.0, **more):
        now = time.time()
        return Fault(kind, now, now + lasts, **more)

    def running(self, condition=lambda it: True):
        """An execution that runs in a job, as far as one can tell."""
        alive = {job for job, *_ in self.cluster.queue("%i", "-t", "R") or []}
        found = [it for it in self.night.executions() if not it.over and it.job in alive and condition(it)]
        return self.random.choice(found) if found else None

    def a_node(self):
        """One that is well; at most one at a time is not."""
        return None if self.out else self.random.choice(self.cluster.NODES)

    def without(self, node, seconds, back):
        """Takes a node away for a while."""
        self.out.add(node)
        self.later.append((time.monotonic() + seconds, lambda: (back(node), self.out.discard(node))))

    def loop_killed(self):
        return self.fault("loop_killed") if self.night.kill_loop(self.night.host) else None

    def loop_moved(self):
        """Goes on as from another machine."""
        hosts = [host for host in ("", "login2", "login3") if host != self.night.host]
        return self.fault("loop_moved") if self.night.kill_loop(self.random.choice(hosts)) else None

    def controller_restarted(self):
        return self.controller("controller_restarted", False)

    def controller_crashed(self):
        # Jobs that it forgot are ended once their nodes report them. A node that is given a second job of the same number is drained.
        self.later.append((time.monotonic() + 10, self.undrain))
        return self.controller("controller_crashed", True, 15)

    def controller(self, kind, forget, after=0):
        began = time.time()
        self.cluster.stop_controller(forget)
        time.sleep(self.random.uniform(0.2, 3))
        if not self.cluster.start_controller():
            raise Broken("the controller does not come back")
        return Fault(kind, began, time.time() + after)

    def node_lost(self, noticed=True, seconds=5, kind="node_lost"):
        node = self.a_node()
        if node:
            self.without(node, seconds, self.cluster.bring_back)
            fault = self.fault(kind, 2, node=node)
            self.cluster.lose_node(node, noticed)
            return fault

    def node_lost_unseen(self):
        return self.node_lost(False, 20, "node_lost_unseen")

    def node_blinked(self):
        """It is back before the controller looks."""
        return self.node_lost(False, 1, "node_blinked")

    def step_daemons_killed(self):
        victim = self.running()
        if victim and self.cluster.kill_step_daemons(victim.node):
            # The controller finds out within a quarter of a minute.
            return self.fault("step_daemons_killed", 1, node=victim.node)

    def drained(self):
        node = self.a_node()
        if node and self.cluster.drain(node) is not None:
            self.without(node, self.random.uniform(2, 6), self.cluster.resume)
            return self.fault("drained")

    def requeued(self, kind="requeued", hurry=False):
        victim = self.running()
        fault = victim and self.fault(kind, job=victim.job)
        if victim and self.cluster.requeue(victim.job) is not None:
            if hurry:
                self.later.append((time.monotonic() + self.random.uniform(0.5, 2), lambda: self.cluster.start_now(victim.job)))
            return fault

    def requeued_and_hurried(self):
        return self.requeued("requeued_and_hurried", True)

    def preempted(self):
        victim = self.running()
        if victim and self.cluster.preempt(victim.node) is not None:
            return self.fault("preempted", 4, node=victim.node)

    def cancelled(self):
        """By hand, and only what would be discarded: other changes would wait in vain for those that were kept without it."""
        calls = set(map(int, self.night.lines("calls")))
        victim = self.running(lambda it: it.experiment in calls and self.night.gain(it.experiment) < 0)
        if victim and self.cluster.cancel(victim.job) is not None:
            return self.fault("cancelled", job=victim.job)

    def goes_wrong(self, kind, command, mode):
        """The next call of a command, or all for a while."""
        if mode in ("fail", "empty") and command != "sbatch":
            # Lies that follow each other closely would together last too long.
            if time.monotonic() < self.lied + 2 * LOST_AFTER:
                return None
            self.lied = time.monotonic()
            self.wrappers.plan(command, mode, seconds=LIE)
        else:
            self.wrappers.plan(command, mode)
        return self.fault(kind)


def met(fault, execution, end=float("inf")):
    """Whether a fault can have met an execution, which was over by `end`, before its result was safe."""
    here = fault.node in (None, execution.node) and fault.job in (None, execution.job)
    return fault.kind.startswith(ENDING) and here and execution.start <= fault.ended and fault.began - 1 <= (execution.over or end)
