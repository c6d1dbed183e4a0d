"""Measurements of the Docker backend that are killed, or lose something: each in a process of its own."""

import contextlib
import json
import os
import signal
import time
from pathlib import Path

import psutil

from pairlab.testbed.contracts import no_progress
from pairlab.testbed.docker import image
from pairlab.testbed.docker.reaper import FIFO, LABEL
from tests.faults.forked import Forked
from tests.faults.processes import DYING_S

DURATION_S = 0.5
#: Whether a run counts is not the question here: a machine on which others work makes it invalid.
MEASURED = ("ok", "invalid")

#: Measures, and tells each phase. Its Ctrl-C, where it is asked for, comes 0.1 s after that phase has begun. It stops
#: itself at the end of a phase, and kills itself when a daemon was asked for something and has not answered.
MEASURE = """
import http.client, json, os, signal, sys
import docker
from pairlab import Spec, measure
driver, duration_s, interrupted, hosts, stopped, deadly, link_rate_bps = sys.argv[1:]
signal.signal(signal.SIGALRM, lambda *_: os.killpg(0, signal.SIGINT))
def tell(phase, done, total):
    print(json.dumps(phase), flush=True)
    if phase == interrupted:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
    if phase == stopped and done == total:
        os.kill(os.getpid(), signal.SIGSTOP)
def die_in(call):
    asked = getattr(docker.APIClient, call)
    def asking(*words, **options):
        http.client.HTTPConnection.getresponse = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        return asked(*words, **options)
    setattr(docker.APIClient, call, asking)
if deadly:
    die_in(deadly)
spec = Spec(backend="docker", driver=driver, workload="flowgen", pairs=2, duration_s=float(duration_s), max_skew_s=5)
if float(link_rate_bps):
    spec = spec.replace(link_rate_bps=float(link_rate_bps))
if int(hosts) > 1:
    spec = spec.replace(hosts=int(hosts), placement="across")
print(json.dumps("begun"), flush=True)
run = measure(spec, fresh=True, progress=tell)
print(json.dumps([run.status, list(run.reasons), list(run.flows["status"])]), flush=True)
"""


class Measuring:
    """A process that measures. until(phase) waits for that phase; ended() for its end, and gives its last output.

    interrupted: the phase in which it is, as by Ctrl-C. stopped: the phase at whose end it waits for `go_on`. deadly:
    the call of docker.APIClient in which it kills itself. link_rate_bps: of each container; 0: flows fill the CPUs.
    """

    def __init__(self, driver, duration_s=DURATION_S, interrupted="", hosts=1, stopped="", deadly="", link_rate_bps=0):
        self.process = Forked(MEASURE, driver, duration_s, interrupted, hosts, stopped, deadly, link_rate_bps)
        self.pid = self.process.pid
        self.stopped = stopped
        self.last = None

    def until(self, phase):
        for line in self.process.stdout:
            self.last = json.loads(line)
            if self.last == phase:
                return
        raise AssertionError(f"it ended before {phase!r}: {self.process.complaint()}")

    def until_stopped(self):
        """So that what takes the machine a while is done before the traffic, and not in the seconds that it lasts."""
        self.until(self.stopped)  # also where it has to wait for another measurement
        until(lambda: psutil.Process(self.pid).status() == psutil.STATUS_STOPPED, 60)

    def go_on(self):
        os.kill(self.pid, signal.SIGCONT)

    def ended(self):
        output, self.complaint = self.process.communicate(timeout=60)
        return json.loads(output.splitlines()[-1])

    def failed(self):
        """What it said as it failed."""
        _, complaint = self.process.communicate(timeout=60)
        assert self.process.returncode not in (0, None)
        return complaint

    def kill(self):
        """Returns when it is dead: after how many seconds."""
        begun = time.monotonic()
        self.process.kill()
        self.process.wait(DYING_S)
        return round(time.monotonic() - begun, 3)

    def below(self, *words):
        """Processes that it started, of this session, whose command lines have all these words."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                line = " ".join(process.cmdline())
                if all(word in line for word in words) and f"PAIRLAB_OWNER={self.pid}@" in _environment(process):
                    yield process

    def named(self, name):
        """Processes that it started, of this session, that run the program of that name."""
        return [each for each in self.below(name) if each.name() == name]

    def lifeline(self):
        """The shell that starts the lifeline again, and the lifeline."""
        found = {process.name() == "sh": process for process in self.below("pairlab.testbed.docker.reaper")}
        return found[True], found[False]

    def lifeline_that_stands(self):
        """The lifeline, once it holds the FIFO that containers wait on, or None."""
        for process in self.below("pairlab.testbed.docker.reaper"):
            with contextlib.suppress(OSError):
                held = [os.readlink(each) for each in Path(f"/proc/{process.pid}/fd").iterdir()]
                if any(each.endswith(f"/{FIFO}") for each in held):
                    return process
        return None

    def containers(self, client):
        return [each for each in owned(client, f"{self.pid}@") if "Image" in each]


def _environment(process):
    return " ".join(f"{key}={value}" for key, value in process.environ().items())


def owned(client, owner):
    """Containers and networks of that owner."""
    ours = {"label": LABEL}
    found = [*client.api.containers(all=True, filters=ours), *client.api.networks(filters=ours)]
    return [each for each in found if each["Labels"]["pairlab.owner"].startswith(owner)]


def until(condition, within_s=10.0):
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.02)


@contextlib.contextmanager
def someone_elses(client, name, labels=None):
    """A container on a network of its own; yields what tells how both are, the same each time if they are untouched."""
    api, unique = client.api, f"{name}-{os.getpid()}"
    image.ensure(client, no_progress)
    with contextlib.ExitStack() as stack:
        network = api.create_network(unique, driver="bridge", labels=labels)["Id"]
        stack.callback(api.remove_network, network)
        options = api.create_host_config(network_mode=network, init=True)
        command = ["sleep", "1000"]
        container = api.create_container(image.tag(), command, name=unique, labels=labels, host_config=options)["Id"]
        stack.callback(api.remove_container, container, force=True)
        api.start(container)
        yield lambda: (api.inspect_container(container)["State"], api.inspect_network(network)["Containers"])
