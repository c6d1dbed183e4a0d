"""stress-ng: what is read of its report on standard output."""

import re

import pytest

from pairlab.testbed.workloads.stress_ng import StressNgCpu, StressNgStream
from tests.unit.testbed.workloads.helpers import captured, only


@pytest.mark.parametrize("version", ["0.13.12", "0.15.06", "0.17.06", "0.19.02", "0.22.01"])
def test_the_time_of_a_fixed_number_of_operations_is_read(version):
    text = captured(f"stress-ng-cpu-{version}-one.txt")
    (line,) = [line.split() for line in text.splitlines() if " cpu   " in line]
    assert only(StressNgCpu().parse(text)).flow == {"duration_s": float(line[5]), "calculation_s": float(line[5])}


def test_operations_that_were_not_all_done_are_no_result():
    with pytest.raises(ValueError, match="4,037 of 10,000 operations were done in the time: make duration_s longer"):
        StressNgCpu().parse(captured("stress-ng-cpu-0.15.06-out-of-time.txt"))


RATES = [
    ("0.15.06", 20504.93, 13669.95),
    ("0.17.06", 7555.17, 5036.78),
    ("0.19.02", 2106.81, 1404.54),
    ("0.22.01", 6337.65, 4225.10),
]


@pytest.mark.parametrize(("version", "read", "write"), RATES)
def test_what_memory_was_read_and_written_is_in_bits_per_second(version, read, write):
    flow = only(StressNgStream().parse(captured(f"stress-ng-stream-{version}-one.txt"))).flow
    assert flow["memory_read_bps"] == pytest.approx(read * 2**20 * 8)
    assert flow["memory_write_bps"] == pytest.approx(write * 2**20 * 8)
    assert flow["memory_read_bps"] / flow["memory_write_bps"] == pytest.approx(1.5, rel=1e-3)  # six reads to four


@pytest.mark.parametrize(("version", "read", "write"), [each for each in RATES if each[0] != "0.19.02"])
def test_memorys_rates_are_read_of_the_lines_of_metrics_alone(version, read, write):
    text = captured(f"stress-ng-stream-{version}-one.txt")
    flow = only(StressNgStream().parse(re.sub(r".*: memory rate: .*\n", "", text))).flow
    assert flow["memory_read_bps"] == pytest.approx(read * 2**20 * 8)
    assert flow["memory_write_bps"] == pytest.approx(write * 2**20 * 8)


def test_one_rate_of_reads_and_writes_is_refused_by_name():
    with pytest.raises(ValueError, match=r"one memory rate, of reads and writes together.*install stress-ng 0\.15"):
        StressNgStream().parse(captured("stress-ng-stream-0.13.12-both.txt"))


@pytest.mark.parametrize(
    ("version", "missing"),
    [
        ("0.13.12", "of reads and writes together; this is 0.13: install stress-ng 0.15 or newer"),
        ("0.15.00", ""),
        ("1.01", ""),
    ],
)
def test_a_stress_ng_with_one_rate_is_missing_before_anything_is_built(version, missing, tmp_path, monkeypatch):
    tool = tmp_path / "stress-ng"
    tool.write_text(f"#!/bin/sh\necho 'stress-ng, version {version} (gcc 12.2, x86_64 Linux 6.1)'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    (program,) = StressNgStream.programs
    assert missing in str(program.missing() or "")
    assert bool(program.missing()) == bool(missing)
    assert not any(each.missing() for each in StressNgCpu.programs)


def test_too_short_a_time_for_memorys_rate_is_told():
    with pytest.raises(ValueError, match="too little time to report the rate of memory"):
        StressNgStream().parse(captured("stress-ng-stream-0.15.06-short.txt"))


@pytest.mark.parametrize("workload", [StressNgCpu, StressNgStream])
def test_an_incomplete_report_is_refused(workload):
    with pytest.raises(ValueError, match=f"{workload.name} reported no complete test: the last .*; expected 'metrc"):
        workload().parse("stress-ng: info:  [7] setting to a 5 second run per stressor\n")
