"""What is shown of a measurement while it runs, of pairs of which one end sends, or both."""

from types import SimpleNamespace

import pytest

from pairlab.testbed.host.live_sampler import Sampler


def seen(rates, *, pairs, isolated=True):
    told = []
    site = SimpleNamespace(hosts={}, interface="eth0", interface_is_own=True, facts=dict)
    senders = [
        SimpleNamespace(ended=True, endpoint=SimpleNamespace(name=f"end-{number}")) for number in range(len(rates))
    ]
    sampler = Sampler(senders, site, isolated, 2.0, told.append, pairs=pairs)
    sampler._counters = [SimpleNamespace(sent_bps=lambda passed_s, rate=rate: rate) for rate in rates]
    sampler._cpu = None
    sampler._shares_since = lambda: dict.fromkeys(("usr", "sys", "softirq"), 0.0)
    sampler.look(0.5)
    (sample,) = told
    return sample.client_bps, sample.total_bps


def test_what_both_ends_of_a_pair_send_is_that_pairs():
    assert seen([1.0, 2.0, 10.0, 20.0], pairs=2) == ((11.0, 22.0), 33.0)
    assert seen([1.0, 2.0], pairs=2) == ((1.0, 2.0), 3.0)


def test_a_pair_of_which_one_end_is_not_seen_has_no_rate_and_so_has_the_total_none():
    assert seen([1.0, 2.0, None, 20.0], pairs=2) == ((None, 22.0), None)


def test_of_a_shared_link_only_the_total_is_known():
    assert seen([5.0], pairs=3, isolated=False) == ((None, None, None), pytest.approx(5.0))
