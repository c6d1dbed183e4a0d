"""A traffic tool that is not what it says: it has no right but to send and to receive."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from pairlab import Spec, open_testbed
from pairlab.testbed import requirements
from tests.conftest import need

#: Writes to stderr, as JSON, its rights and what it gets at of process 1 and of the launchers; then becomes a command.
LOOKS = """
import ctypes, json, os, sys
from pathlib import Path
PIDFD_GETFD = 438

def gets_at(pid):
    libc, handle = ctypes.CDLL(None), os.pidfd_open(pid)
    for descriptor in range(32):
        if libc.syscall(PIDFD_GETFD, handle, descriptor, 0) >= 0:
            yield f"descriptor {descriptor}, as pidfd_getfd has it"
        yield from opens(f"/proc/{pid}/fd/{descriptor}", os.O_RDONLY | os.O_NONBLOCK)
    yield from opens(f"/proc/{pid}/mem", os.O_RDWR)

def opens(path, flags):
    try:
        os.close(os.open(path, flags))
    except OSError:
        return
    yield path

def commands():
    for place in Path("/proc").glob("[0-9]*"):
        yield int(place.name), (place / "cmdline").read_text().split("\\0")

lines = (line.partition(":") for line in Path("/proc/self/status").read_text().splitlines())
rights = {name: value.strip() for name, _, value in lines if name.startswith(("Cap", "NoNewPrivs"))}
own = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd") if int(name) > 2]
own = [os.readlink(path) for path in own if os.path.exists(path)]  # not the one that listed them
others = [pid for pid, words in commands() if pid == 1 or words[1:2] == ["hold"]]
got = {pid: list(gets_at(pid)) for pid in others}
seen = {"rights": rights, "descriptors": own, "got": got}
print("seen:" + json.dumps(seen), file=sys.stderr, flush=True)
os.execv(sys.argv[1], sys.argv[1:])
"""

#: Measures with the program named iperf that is first on PATH, and prints what the tools wrote to stderr.
MEASURES = """
import json, sys
from pathlib import Path
from pairlab import Spec, measure, open_testbed
run = measure(Spec(**json.loads(sys.argv[1])), root=Path(sys.argv[2]))
print(json.dumps([dict(run.raw), run.facts["versions"]["iperf"], run.facts["congestion_control"]]))
"""


def fake(place):
    """A folder with a program named iperf, which looks around before it becomes the real one."""
    real = shutil.which("iperf")
    (place / "looks.py").write_text(LOOKS)
    (place / "bin").mkdir()
    (place / "bin" / "iperf").write_text(f'#!/bin/sh\nexec {sys.executable} -I {place}/looks.py {real} "$@"\n')
    (place / "bin" / "iperf").chmod(0o755)
    return place / "bin"


def seen_in(text):
    (line,) = (line for line in text.splitlines() if line.startswith("seen:"))
    return json.loads(line.removeprefix("seen:"))


def rootless():
    """What runs a command so that pairlab needs a user namespace, as it does for any user but root."""
    if os.geteuid() != 0:
        return []
    if not shutil.which("setpriv"):
        pytest.skip("taking root's capabilities needs setpriv, not on PATH: apt-get install util-linux")
    return ["setpriv", "--bounding-set=-all,+setfcap", "--inh-caps=-all"]  # which it takes to map user 0


@pytest.fixture(scope="module", params=["as-it-is", "rootless"])
def found(request, tmp_path_factory):
    """What a fake tool saw: of each process, and when asked for its version; and which congestion control it had."""
    need("netns", workload="iperf")
    place = tmp_path_factory.mktemp("fake")
    asked = {"workload": "iperf", "pairs": 2, "duration_s": 0.5, "max_skew_s": 5, "max_foreign_cpu": 1}
    asked |= {"congestion_control": restricted() or "reno"}
    command = [*(rootless() if request.param == "rootless" else []), sys.executable, "-c", MEASURES]
    environment = os.environ | {"PATH": f"{fake(place)}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [*command, json.dumps(asked), place / "runs"], capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def restricted():
    """A congestion control that the host does not allow to all; None: it allows them all."""
    available, allowed = (
        (requirements.TCP_SETTINGS / f"tcp_{which}_congestion_control").read_text().split()
        for which in ("available", "allowed")
    )
    return next((name for name in available if name not in allowed), None)


def test_a_fake_tool_has_no_capability_and_gets_at_nobodys_descriptors(found, clean_host):
    raw, asked_its_version, _ = found
    tools = {name: text for name, text in raw.items() if name.endswith(".err")}
    assert tools.keys() == {f"{side}-{pair}.err" for side in ("client", "server") for pair in range(2)}
    for text in (*tools.values(), asked_its_version):
        assert_only_traffic(seen_in(text))


def test_a_congestion_control_that_the_host_restricts_takes_no_capability(found):
    if not (name := restricted()):
        pytest.skip("this host allows every congestion control to all")
    raw, _, in_force = found
    assert in_force == {"in_force": name, "by": "route"}
    assert set(seen_in(raw["client-0.err"])["rights"].values()) == {"0" * 16, "1"}


def assert_only_traffic(seen):
    assert "1" in seen["got"]
    assert len(seen["got"]) > 1  # its own launcher, and others'
    assert not any(seen["got"].values())
    assert seen["descriptors"] == []
    sets = dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), "0" * 16)
    assert seen["rights"] == sets | {"NoNewPrivs": "1"}


def test_a_users_own_command_has_all_that_its_endpoint_allows():
    need("netns")
    with open_testbed(Spec(workload="flowgen", pairs=1)) as bed:
        assert bed.pairs[0].client.run(["ip", "link", "set", "lo", "down"]).returncode == 0
        refused = bed.pairs[0].client.run(["ip", "link", "set", "lo", "up"], unprivileged=True)
    assert refused.returncode
    assert "not permitted" in refused.stderr
