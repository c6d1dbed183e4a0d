"""Samples of hosts with clocks and tickers of their own, as if they had been taken together."""

import math

import pytest

from pairlab.testbed.own_kernels.hosts import side_by_side

NAN = float("nan")


def test_samples_of_one_host_stay_as_they_are():
    taken = ([0, 100], [[(0, 0), (5, 1)], [(10, 2), (25, 3)]])
    moments_ns, sent = side_by_side([taken], [["a", "b"]], ["a", "b"])
    assert (moments_ns, sent) == ([0, 100], [[[0, 0], [5, 1]], [[10, 2], [25, 3]]])


def test_what_another_host_counted_is_known_at_the_moments_of_the_first_in_the_order_asked_for():
    """The other samples 40 ns later, at a steady rate of 1 byte a ns."""
    first = ([100, 200, 300], [[(7, 1)], [(8, 2)], [(9, 3)]])
    other = ([140, 240, 340], [[(140, 14)], [(240, 24)], [(340, 34)]])
    moments_ns, sent = side_by_side([first, other], [["a"], ["b"]], ["b", "a"])
    assert moments_ns == [100, 200, 300]
    assert [each[1] for each in sent] == [[7, 1], [8, 2], [9, 3]]
    assert [each[0] for each in sent] == [[140, 14], pytest.approx([200, 20]), pytest.approx([300, 30])]


def test_what_cannot_be_seen_there_cannot_be_seen_here():
    first = ([0, 100], [[(0, 0)], [(1, 1)]])
    other = ([1, 101], [[(NAN, NAN)], [(NAN, NAN)]])
    _, sent = side_by_side([first, other], [["a"], ["b"]], ["a", "b"])
    assert all(math.isnan(each[1][0]) for each in sent)
