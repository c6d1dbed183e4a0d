"""The virtual machine of `make test-kernels`: it ends in any case, and what did not run in it is seen."""

import os

import pytest

from pairlab import paths
from tests.kernels import machine, selection
from tests.kernels.__main__ import judged
from tests.kernels.image import Image

REPORT = """<testsuites><testsuite>
<testcase classname="tests.a" name="test_good" />
<testcase classname="tests.a" name="test_bad"><failure message="assert 1 == 2&#10;more">at length</failure></testcase>
<testcase classname="tests.a" name="test_elsewhere"><skipped message="no ipip links" /></testcase>
</testsuite></testsuites>"""


def test_a_skip_counts_as_a_failure_does(tmp_path):
    (tmp_path / "report.xml").write_text(REPORT)
    assert judged(tmp_path / "report.xml") == (
        "1 tests of 3 passed",
        ["tests.a::test_bad: failure: assert 1 == 2", "tests.a::test_elsewhere: skipped: no ipip links"],
    )


def test_no_report_and_no_test_are_failures(tmp_path):
    assert judged(tmp_path / "report.xml")[1] == ["pytest wrote no report; its words are above"]
    (tmp_path / "report.xml").write_text("<testsuites><testsuite /></testsuites>")
    assert judged(tmp_path / "report.xml")[1] == ["no test matches"]


def test_chosen_subjects_are_those_that_are_asked_for():
    assert "(netns-ipip) or (delay)" in selection.words(["ipip", "netem"], "")[-1]
    assert selection.words([], "reaches")[-1].endswith("and (reaches)")


def test_a_docker_daemon_starts_only_where_its_tests_are_asked_for():
    guest = (paths.ROOT / "tests/kernels/guest.sh").read_text()
    assert "grep -q docker- words &&" in guest
    assert "docker-" in " ".join(selection.words(["docker"], ""))
    assert "docker-" not in " ".join(selection.words([], ""))


@pytest.fixture
def booted(tmp_path, monkeypatch):
    """Runs a machine that is this shell script, and returns the folder of what it reported, or why there is none."""

    def booted(script, timeout_s):
        program = tmp_path / "bin" / "qemu-system-x86_64"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(program.parent), prepend=":")
        place = tmp_path / "run"
        place.mkdir()
        try:
            return machine.run(Image(tmp_path), ["-x"], place, timeout_s)
        except machine.NoReport as told:
            return str(told)

    return booted


def test_what_a_machine_writes_to_its_disk_is_unpacked(booted, tmp_path):
    disk = tmp_path / "run" / "results.raw"
    made = f"echo passed > {tmp_path}/report.xml"
    made += f"; tar -c -C {tmp_path} ./report.xml | dd of={disk} conv=notrunc status=none"
    assert (booted(made, 60) / "report.xml").read_text() == "passed\n"


def test_a_machine_that_ends_without_a_report_is_told_with_its_last_words(booted):
    told = booted("echo Booting; echo Kernel panic", 60)
    assert told == "the virtual machine reported nothing: it ended. Its last words:\nBooting\nKernel panic"


def test_a_machine_that_does_not_end_in_its_time_is_ended(booted, tmp_path):
    told = booted("echo Booting; exec sleep 1000", 0.5)
    assert told == "the virtual machine reported nothing: it had 0.5 s. Its last words:\nBooting"
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
