"""The largest load within limits: found where it was planted, from either side, in few loads."""

import math

import numpy as np
import pytest

from pairlab.apps import rate_search
from pairlab.apps.rate_search import Limit, search
from pairlab.errors import BadInput
from pairlab.model.spec import Spec
from tests.support.synthetic import run, transacting

CELL = Spec(experiment="latency", workload="rr")


def queue(capacity, *, noise=0.0, lost_above=math.inf):
    """A server whose requests wait as in a queue of that capacity, and which loses requests above a load."""
    random = np.random.default_rng(5)
    asked = []

    def measure(spec):
        load = spec.requests_per_s
        asked.append(load)
        full = min(load / capacity, 0.999) * math.exp(noise * random.normal())
        each_s = 1e-4 / (1 - min(full, 0.9999))
        lost = round(1000 * max(0.0, load / lost_above - 1))
        return transacting({each_s: 1000}, lost=lost, repetition=spec.repetition)

    return measure, asked


@pytest.mark.parametrize("capacity", [3_000, 40_000, 900_000])
def test_the_load_at_which_latency_passes_its_limit_is_found_within_the_share(capacity):
    measure, asked = queue(capacity)
    found = search(CELL, "requests_per_s", (1000, 1e6), [Limit.of("p99 <= 200 us")], measure, within=0.02)
    truth = capacity / 2  # where a request takes twice as long
    assert found.borne <= truth < found.refused
    assert found.refused / found.borne <= 1.02
    assert len(set(asked)) <= 2 + math.ceil(math.log2(math.log(1000) / math.log(1.02)))


def test_with_noise_it_is_found_as_closely_as_the_noise_lets():
    measure, _ = queue(40_000, noise=0.02)
    found = search(CELL, "requests_per_s", (1000, 1e6), [Limit.of("p99 <= 200 us")], measure, repetitions=5)
    assert 0.9 * 20_000 < found.borne < 1.1 * 20_000


def test_the_limit_that_is_passed_first_decides():
    measure, _ = queue(40_000, lost_above=5_000)
    limits = [Limit.of("p99 <= 200 us"), Limit.of("loss <= 1 %")]
    found = search(CELL, "requests_per_s", (1000, 1e6), limits, measure)
    assert 4_700 < found.borne <= 5_060
    assert "loss <= 1 %: it is" in next(each.why_not for each in found.tried if each.load == found.refused)


def test_bounds_that_do_not_enclose_it_are_told_apart():
    low, _ = queue(1_500)
    found = search(CELL, "requests_per_s", (1000, 1e6), [Limit.of("p99 <= 200 us")], low)
    assert (math.isnan(found.borne), found.refused, len(found.tried)) == (True, 1000, 1)
    high, _ = queue(1e9)
    found = search(CELL, "requests_per_s", (1000, 1e6), [Limit.of("p99 <= 200 us")], high)
    assert (found.borne, math.isnan(found.refused), len(found.tried)) == (1e6, True, 2)


def test_a_number_of_pairs_is_searched_in_whole_numbers():
    def measure(spec):
        return transacting({1e-3 if spec.pairs > 7 else 1e-4: 1000}, repetition=spec.repetition)

    found = search(CELL, "pairs", (1, 50), [Limit.of("p50 <= 0.5 ms")], measure, within=0.01)
    assert (found.borne, found.refused) == (7, 8)


def test_a_repetition_that_does_not_count_bears_nothing():
    def measure(spec):
        bad = {"status": "invalid", "reasons": ("the server was late",)} if spec.requests_per_s > 5000 else {}
        return run([1.0], **bad) if bad else transacting({1e-4: 1000})

    found = search(CELL, "requests_per_s", (1000, 1e5), [Limit.of("p99 <= 1 ms")], measure)
    assert found.borne <= 5000 < found.refused
    assert "3 of 3 repetitions are invalid: the server was late" in found.tried[1].why_not


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("p99 <= 1 ms", ("latency_p99_s", 1e-3)),
        ("p99.9<=500us", ("latency_p99_9_s", 5e-4)),
        ("loss <= 0.1 %", ("loss", 1e-3)),
        ("fct_max_s <= 2", ("fct_max_s", 2.0)),
    ],
)
def test_limits_are_read_as_people_write_them(text, limit):
    found = Limit.of(text)
    assert (found.quantity, found.most) == (limit[0], pytest.approx(limit[1]))


@pytest.mark.parametrize("text", ["p99 < 1 ms", "p98 <= 1 ms", "p99 <= fast", "loss <= x %"])
def test_what_is_no_limit_is_refused(text):
    with pytest.raises(BadInput):
        Limit.of(text)


def test_what_cannot_be_searched_is_refused():
    measure, asked = queue(1000)
    limits = [Limit.of("p99 <= 1 ms")]
    for load, bounds, what in (
        ("duration_s", (1, 2), "is no load"),
        ("requests_per_s", (0, 2), "give a load above 0"),
        ("requests_per_s", (3, 2), "and a larger one"),
    ):
        with pytest.raises(BadInput, match=what):
            search(CELL, load, bounds, limits, measure)
    with pytest.raises(BadInput, match="nothing limits the load"):
        search(CELL, "requests_per_s", (1, 2), [], measure)
    assert asked == []
    assert rate_search.loss(transacting({1e-3: 90}, lost=10)) == pytest.approx(0.1)
