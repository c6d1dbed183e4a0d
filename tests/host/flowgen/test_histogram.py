"""flowgen's histogram of latencies: which bucket a time is in, and what the bucket stands for."""

from __future__ import annotations

import pytest

from tests.host.flowgen.helpers import SOURCE, needs_compiler, run

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include "histogram.h"
int main(int count, char **times) {
    static struct histogram histogram;
    for (int i = 1; i < count; i++)
        histogram_record(&histogram, strtoull(times[i], NULL, 10));
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        if (histogram.counts[i])
            printf("%llu %llu\\n", (unsigned long long)histogram_value(i), (unsigned long long)histogram.counts[i]);
}
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """recorded(times_ns) -> {the time a bucket stands for, in ns: how many are in it}."""
    needs_compiler()
    place = tmp_path_factory.mktemp("histogram")
    (place / "main.c").write_text(PROGRAM)
    built = run("cc", "-std=c11", "-Werror", "-I", SOURCE / "src", "-o", place / "main", place / "main.c")
    assert built.returncode == 0, built.stderr

    def record(*times_ns: int) -> dict[int, int]:
        lines = run(place / "main", *times_ns).stdout.splitlines()
        return {int(value): int(count) for value, count in map(str.split, lines)}

    return record


def test_up_to_two_microseconds_each_nanosecond_is_known(recorded):
    assert recorded(0, 1, 1, 2046, 2047) == {0: 1, 1: 2, 2046: 1, 2047: 1}


@pytest.mark.parametrize("ns", [2048, 4095, 4096, 100_000, 123_456_789, 10**9, 60 * 10**9, 2**40 - 1])
def test_a_longer_time_is_known_within_half_a_thousandth(recorded, ns):
    ((value, count),) = recorded(ns).items()
    assert count == 1
    assert abs(value - ns) <= 0.0005 * ns


def test_times_that_differ_by_a_thousandth_are_told_apart(recorded):
    times = [round(10_000 * 1.002**k) for k in range(500)]
    assert list(recorded(*times).values()) == [1] * 500


def test_longer_than_the_longest_is_in_the_last_bucket(recorded):
    ((value, count),) = recorded(2**40, 2**63).items()
    assert count == 2
    assert value > 1000e9
