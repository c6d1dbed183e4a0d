"""flowgen hold: what a program that it launches may do, and which descriptors it has."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

from tests.host.flowgen.helpers import REFUSED, child_of, has_gone, run

CAP_NET_ADMIN = 12
SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to lose")


def setpriv(*options: str) -> list[str]:
    """What runs a command with other privileges."""
    if not shutil.which("setpriv"):
        pytest.skip("changing privileges needs setpriv, not on PATH: apt-get install util-linux")
    return ["setpriv", *options]


def rights_of(text: str) -> dict[str, int]:
    lines = dict(line.split(":\t") for line in text.splitlines())
    return {name: int(lines[name], 16) for name in (*SETS, "NoNewPrivs")}


def ended_well(held, gate) -> None:
    held.ready()
    gate.release()
    ended = held.event()
    assert (ended["event"], ended["exit_code"]) == ("ended", 0), ended


def test_an_unprivileged_program_has_no_capability_and_never_gets_one(hold_at_gate, gate, out):
    held = hold_at_gate("--unprivileged", "--stdout", out, "--", "cat", "/proc/self/status")
    ended_well(held, gate)
    rights = rights_of(out.read_text())
    if os.geteuid() != 0:
        del rights["CapBnd"]  # to take from that set is a privilege; and nothing can be gained of it
    assert rights == dict.fromkeys(rights, 0) | {"NoNewPrivs": 1}


@needs_root
@pytest.mark.parametrize(
    "before",
    [
        ["--inh-caps", "+net_raw,+sys_admin", "--ambient-caps", "+net_raw,+sys_admin"],
        ["--bounding-set", "-setpcap"],  # then the bounding set stays, and nothing comes of it
    ],
    ids=["ambient", "without-setpcap"],
)
def test_whatever_the_launcher_has_an_unprivileged_program_gets_none_of_it(hold, out, before):
    held = hold("--unprivileged", "--stdout", out, "--", "cat", "/proc/self/status", before=setpriv(*before))
    assert [held.event()["event"] for _ in range(2)] == ["ready", "ended"]
    rights = rights_of(out.read_text())
    assert [rights[name] for name in SETS if name != "CapBnd"] == [0] * 4
    assert (rights["CapBnd"] == 0) == ("-setpcap" not in before)


@needs_root
def test_without_the_option_a_program_keeps_what_root_has(hold, out):
    held = hold("--stdout", out, "--", "cat", "/proc/self/status")
    assert [held.event()["event"] for _ in range(2)] == ["ready", "ended"]
    rights = rights_of(out.read_text())
    assert rights["CapEff"] >> CAP_NET_ADMIN & 1
    assert rights["NoNewPrivs"] == 0


@needs_root
def test_a_program_is_found_where_only_root_may_look(hold, flowgen, tmp_path, out):
    """As with sudo, in somebody's home directory."""
    place = tmp_path / "theirs"
    place.mkdir(mode=0o700)
    shutil.copy(flowgen, place / "flowgen")
    os.chown(place, 65534, 65534)
    held = hold("--unprivileged", "--stdout", out, "--", place / "flowgen", "version")
    assert [held.event()["event"] for _ in range(2)] == ["ready", "ended"]
    assert out.read_text().startswith("flowgen ")


def test_a_killed_launcher_takes_its_unprivileged_child_with_it(hold_at_gate):
    held = hold_at_gate("--unprivileged", "--", "sleep", "1000").ready()
    child = child_of(held)
    held.process.kill()
    assert has_gone(child)


# --- descriptors

#: Descriptors above standard error; opening the folder takes one, which is closed when they are looked at.
DESCRIPTORS = """
import os
for name in sorted(os.listdir("/proc/self/fd"), key=int):
    if int(name) > 2 and os.path.exists(f"/proc/self/fd/{name}"):
        print(os.readlink(f"/proc/self/fd/{name}"))
"""


@pytest.mark.parametrize("known", [True, False], ids=["close_range", "without"])
def test_a_program_has_no_descriptor_but_the_standard_ones(hold_at_gate, gate, tmp_path, out, known, held_at):
    if not known and held_at == "gate":
        pytest.skip("one filter at a time")
    left = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(left, True)
    try:
        before = [] if known else [sys.executable, "-c", REFUSED, "close_range"]
        if before and run(*before, "/bin/true").returncode:
            pytest.skip("this host does not let us refuse close_range (seccomp)")
        command = [sys.executable, "-c", DESCRIPTORS]
        held = hold_at_gate("--stdout", out, "--", *command, before=before, pass_fds=[left])
    finally:
        os.close(left)
    ended_well(held, gate)
    assert out.read_text() == ""


#: Tells which descriptors of its launcher it could get at, of the path or with pidfd_getfd(2).
TAKES = """
import ctypes, os
launcher, libc = os.getppid(), ctypes.CDLL(None, use_errno=True)
handle = os.pidfd_open(launcher)
for descriptor in range(16):
    try:
        print("path", descriptor, os.readlink(f"/proc/{launcher}/fd/{descriptor}"))
    except OSError:
        pass
    if libc.syscall(438, handle, descriptor, 0) >= 0:
        print("taken", descriptor)
"""


@pytest.mark.parametrize("options", [["--unprivileged"], []], ids=["unprivileged", "as-it-is"])
def test_a_program_cannot_take_its_launchers_descriptors(hold, out, options):
    """In a container, the launcher has no more capabilities than what it launches."""
    none = setpriv("--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else []
    for before in (none, []) if options else (none,):
        held = hold(*options, "--stdout", out, "--", sys.executable, "-c", TAKES, before=before)
        assert [held.event()["event"] for _ in range(2)] == ["ready", "ended"]
        assert out.read_text() == ""
