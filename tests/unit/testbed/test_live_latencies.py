"""The latencies that a client has counted, seen from outside while it counts."""

import contextlib
import mmap
import os
from types import SimpleNamespace

import numpy as np
import pytest

from pairlab.testbed.host import live_sampler
from pairlab.testbed.host.live_sampler import BUCKETS, LiveLatencies, buckets_s


@pytest.fixture
def counting(monkeypatch):
    """counting(2) -> the counts of a client with so many connections, which is seen; and what looks at it."""

    def begin(connections=1):
        file = os.memfd_create("flowgen-latencies")
        os.truncate(file, connections * 8 * BUCKETS)
        counts = np.frombuffer(mmap.mmap(file, 0), np.uint64).reshape(connections, BUCKETS)
        monkeypatch.setattr(live_sampler, "_histograms", lambda pid: [os.dup(file)])
        return counts, LiveLatencies([SimpleNamespace(pid=1)])

    return begin


def bucket_of(seconds):
    return int(np.searchsorted(buckets_s(), seconds))


def test_buckets_are_apart_as_the_histogram_says_and_within_its_precision():
    values = buckets_s()
    assert (np.diff(values) > 0).all()
    assert values[2047] == 2047e-9  # each ns of its own
    assert values[2048] == 2049e-9  # from here on two in one, and so on
    assert np.diff(values)[4096:].max() / values.max() < 0.001
    assert values[-1] == pytest.approx((1 << 40) / 1e9, rel=0.001)


def test_quantiles_and_rates_are_of_what_came_since_the_last_look(counting):
    counts, looking = counting()
    with contextlib.closing(looking):
        assert looking.since(0.5) is None
        counts[0, bucket_of(20e-6)] += 98
        counts[0, bucket_of(5e-3)] += 2
        found = looking.since(0.5)
        assert found.transactions_per_s == 200
        assert found.latency_p50_s == pytest.approx(20e-6, rel=0.001)
        assert found.latency_p99_s == pytest.approx(5e-3, rel=0.001)
        counts[0, bucket_of(1e-3)] += 10
        assert looking.since(1.0).latency_p99_s == pytest.approx(1e-3, rel=0.001)
        assert looking.since(1.0) is None


def test_connections_count_together_and_a_file_that_is_cut_off_is_read_as_far_as_it_goes(counting):
    counts, looking = counting(3)
    counts[:, bucket_of(1e-3)] += 5
    with contextlib.closing(looking):
        assert looking.since(1.0).transactions_per_s == 15
        (file,) = looking._files
        assert len(live_sampler._counts(file)) == BUCKETS
        with open(f"/proc/self/fd/{file}", "r+b") as same:
            same.truncate(12)
        assert live_sampler._counts(file).sum() == 0
