"""The snapshot of the host: it sees what a testbed leaves, whose it is, and what is not pairlab's."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from pairlab import Spec, cli, open_testbed
from pairlab.errors import BadInput
from pairlab.testbed.audit import snapshot, view
from pairlab.testbed.audit.snapshot import Snapshot, counted, diff
from pairlab.testbed.audit.view import OTHERS, OURS, UNKNOWN, Thing
from pairlab.testbed.cleanup import child_processes, process_table
from pairlab.testbed.cleanup.process_table import SESSION
from tests.conftest import need, with_links
from tests.support.owners import changed, ended

KINDS = frozenset({"process", "sysctl", "link", "namespace", "container"})


def taken(*things, seen=KINDS, **changed):
    about = {"taken_at": "2026-01-01T00:00:00+00:00", "boot": "b", "session": "", "unseen": {}} | changed
    return Snapshot(seen=seen, things=things, **about)


def test_equal_snapshots_do_not_differ():
    one = taken(Thing("process", "1@1", OTHERS, "init"))
    assert diff(one, one) == []


@pytest.mark.parametrize(("whose", "counts"), [(OURS, True), (UNKNOWN, True), (OTHERS, False)])
def test_what_came_counts_unless_it_is_known_to_be_others(whose, counts):
    (found,) = diff(taken(), taken(Thing("process", "5@9", whose, "sleep 1")))
    assert (found.change, found.name, found.counts) == ("appeared", "5@9", counts)


def test_on_a_busy_host_what_bears_no_sign_can_be_left_out_of_account():
    found = diff(taken(), taken(Thing("process", "5@9", OURS), Thing("link", "veth0", UNKNOWN)))
    assert [each.name for each in counted(found)] == ["veth0", "5@9"]
    assert [each.name for each in counted(found, ours_only=True)] == ["5@9"]


@pytest.mark.parametrize("whose", [OURS, UNKNOWN], ids=["ours", "unknown"])
def test_that_a_process_went_is_well_and_that_a_link_went_is_not(whose):
    found = diff(taken(Thing("process", "5@9", whose), Thing("link", "veth0", UNKNOWN)), taken())
    assert [(each.name, each.counts) for each in found] == [("veth0", True), ("5@9", False)]


def test_a_setting_that_changed_is_told_with_both_values():
    was, now = (Thing("sysctl", "net/core/rmem_max", UNKNOWN, value) for value in ("1", "2"))
    (found,) = diff(taken(was), taken(now))
    assert found.counts
    assert str(found) == "sysctl net/core/rmem_max changed (1 -> 2)"


def test_a_namespaces_number_that_came_round_again_is_seen_to_be_ours():
    was, now = (Thing("namespace", "net:[7]", whose) for whose in (OTHERS, OURS))
    assert [each.change for each in diff(taken(was), taken(now))] == ["appeared"]
    assert diff(taken(now), taken(was)) == []


def test_a_kind_that_cannot_be_seen_any_more_counts_even_on_a_busy_host():
    blind = taken(seen=KINDS - {"container"}, unseen={"container": "no daemon"})
    found = diff(taken(Thing("container", "c", OTHERS)), blind)
    assert [str(each) for each in counted(found, ours_only=True)] == [
        "container: could be listed before, and cannot now (no daemon)"
    ]


def test_of_a_kind_that_could_not_be_seen_before_only_what_is_ours_counts():
    blind = taken(seen=KINDS - {"container"}, unseen={"container": "no daemon"})
    now = taken(Thing("container", "c", UNKNOWN), Thing("container", "d", OURS))
    assert [each.name for each in counted(diff(blind, now))] == ["d"]


@pytest.mark.parametrize(("field", "why"), [("boot", "rebooted"), ("session", SESSION)])
def test_snapshots_that_cannot_be_compared_are_refused(field, why):
    with pytest.raises(BadInput, match=why):
        diff(taken(), replace(taken(), **{field: "another"}))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 99}', '{"version": 1, "things": [], "more": 1}'])
def test_a_file_that_is_no_snapshot_is_refused(text):
    with pytest.raises(BadInput, match="snapshot"):
        Snapshot.from_json(text)


def test_a_snapshot_of_this_host_survives_its_file():
    one = snapshot.take()
    assert Snapshot.from_json(one.to_json()) == one
    assert {"process", "namespace", "link", "sysctl", "cgroup", "temporary file", "mount"} <= one.seen


@pytest.mark.parametrize("driver", with_links())
def test_a_testbed_that_is_up_is_seen_whole_and_is_ours(driver):
    need("netns", driver)
    before = snapshot.take()
    with open_testbed(Spec(driver=driver, pairs=2)) as bed:
        found = [each for each in diff(before, snapshot.take()) if each.whose == OURS]
        directory = str(bed.directory.parent)
    kinds = [each.kind for each in found]
    assert ("temporary file", directory) in [(each.kind, each.name) for each in found]
    told = " ".join(each.detail for each in found if each.kind == "process")
    assert "pairlab.testbed.netns.agent" in told
    assert ("ovs-vswitchd" in told) == (driver == "ovs")
    networks = [each for each in found if each.kind == "namespace" and each.name.startswith("net:")]
    assert len(networks) == 1 + 4  # the sandbox's own, and one for each endpoint, without a process
    assert kinds.count("process") >= 3  # the sandbox, its agent, the guard


@pytest.mark.parametrize("by_session", [False, True], ids=["by its owner", "by the session of its own"])
def test_what_pairlab_starts_is_known_by_its_environment_whatever_it_is_called(by_session, monkeypatch):
    """A session sets apart what others do with pairlab meanwhile."""
    known, other = child_processes.needed(), None
    if by_session:
        known, other = None, {**known, SESSION: "another"}
    else:
        monkeypatch.delenv(SESSION)
    before = snapshot.take()
    with subprocess.Popen(["sleep", "60"], env=known) as ours, subprocess.Popen(["sleep", "61"], env=other) as theirs:
        found = {each.detail: each.whose for each in diff(before, snapshot.take()) if each.kind == "process"}
        ours.kill()
        theirs.kill()
    assert (found["sleep 60"], found["sleep 61"]) == (OURS, OTHERS)


def test_a_descriptor_of_a_namespace_that_was_not_closed_is_seen():
    need("netns")
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    before = snapshot.take()
    command = ["unshare", *user, "--net", "sh", "-c", "echo in; read wait"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        forgotten = os.open(f"/proc/{process.pid}/ns/net", os.O_RDONLY)
        process.kill()
    try:
        assert [each.kind for each in diff(before, snapshot.take()) if each.whose == OURS] == ["namespace"]
    finally:
        os.close(forgotten)


def run(*arguments):
    done = CliRunner().invoke(cli.main, ["doctor", *map(str, arguments)])
    return done.exit_code, done.output


def test_doctor_finds_nothing_left_and_says_so(tmp_path):
    status, told = run("--snapshot", tmp_path / "before")
    assert status == 0
    assert "things written to" in told
    status, told = run("--diff", tmp_path / "before", "--ours")
    assert (status, told.splitlines()[0]) == (0, "the host is as it was")


def test_doctor_lists_what_is_left_and_fails(tmp_path):
    run("--snapshot", tmp_path / "before")
    with subprocess.Popen(["sleep", "62"]) as left:
        status, told = run("--diff", tmp_path / "before", "--ours")
        assert status == 1
        assert f"differs: process {left.pid}@" in told
        assert "(sleep 62)" in told
        status, told = run("--diff", tmp_path / "before", "--ours", "--json")
        left.kill()
    assert status == 1
    assert "sleep 62" in [each["detail"] for each in json.loads(told)["left"]]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--snapshot", "a", "--diff", "b"), "use either --snapshot"),
        (("--ours",), "needs --diff FILE"),
        (("--diff", __file__), "no snapshot"),
    ],
)
def test_doctor_refuses_what_it_cannot_compare(arguments, why):
    status, told = run(*arguments)
    assert status == 2
    assert why in told
    assert not Path("a").exists()


def attribution_of(*processes, session="mine"):
    return view.Attribution({each.pid: each for each in processes}, {}, session, observer=1)


def process(pid, *words, parent=0, session="", begun=1, zombie=False):
    return process_table.HostProcess(pid, parent, begun, zombie, words, owner="1@1", session=session, container="")


@pytest.mark.parametrize(("session", "whose"), [("mine", OURS), ("another", OTHERS)])
def test_a_dead_testbed_belongs_to_the_session_whose_watchdog_still_cleans_up(session, whose):
    guard = process(5, "/bin/sh", "-c", "read", "sh", "/tmp/pairlab-ab_cd123", session=session)
    known = attribution_of(process(1, "pytest", session="mine"), guard)
    assert known.whose_testbed("ab_cd123", ended()) == whose
    assert known.whose_testbed("zz_cd123", ended()) == OURS  # nobody cleans up: left behind, by whomever


def test_a_testbed_of_another_pid_namespace_is_of_an_unknown_session():
    known = attribution_of(process(1, "pytest", session="mine"), process(os.getpid(), "x", session="another"))
    assert known.whose_testbed("ab_cd123", changed()) == OTHERS
    assert known.whose_testbed("ab_cd123", changed(pid_namespace=1)) == UNKNOWN


@pytest.mark.parametrize(
    ("word", "run"),
    [
        ("/tmp/pairlab-ab_cd123", "ab_cd123"),
        ("unix:/tmp/pairlab-ab_cd123/ovs/db.sock", "ab_cd123"),
        (f"/sys/fs/cgroup/cpu/pairlab-12@345.67.89.{'0f' * 16}-Ab0cD123", "Ab0cD123"),
        ("/sys/fs/cgroup/cpu/pairlab-12@17000-ab_cd123", "ab_cd123"),
        ("/tmp/pairlab-image-x", None),
    ],
)
def test_a_command_line_tells_which_testbed_it_is_for(word, run):
    assert process(5, "x", word).runs == ({run} if run else set())


def test_an_unreaped_child_is_ours_if_its_living_parent_is():
    known = attribution_of(
        process(1, "pytest", session="mine"),
        process(5, "unshare", parent=1, session="mine"),
        process(6, parent=5, zombie=True),
        process(7, parent=1, zombie=True),
    )
    assert (known.whose(6), known.whose(7)) == (OURS, OTHERS)  # the observer reaps its own
