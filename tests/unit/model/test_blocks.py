"""Which runs were measured side by side, and which one after the other."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from pairlab.model import blocks
from tests.support.runs import made_up

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def labels(*minutes):
    return [f"{NOON + timedelta(minutes=minute):%Y-%m-%dT%H:%M:%S.%fZ} a sweep/1" for minute in minutes]


def measured(after_s, block, **spec):
    run = made_up(at=NOON + timedelta(seconds=after_s), **spec)
    return replace(run, facts=run.facts | {"block": block})


def test_a_label_says_when_a_block_began_and_labels_sort_by_time():
    first, second = blocks.begun("mine/1"), blocks.begun("")
    assert first.endswith(" mine/1")
    assert first < second
    assert datetime.now(UTC) - blocks.began_at(first) < timedelta(seconds=60)
    assert blocks.began_at("") is blocks.began_at("mine/1") is None


def test_runs_of_a_block_share_its_label_unless_it_took_too_long():
    (label,) = labels(0)
    early, late, later = (measured(at, label, pairs=pairs) for pairs, at in enumerate((1, 599, 601), start=1))
    assert blocks.label_of(early) == blocks.label_of(late)
    assert blocks.label_of(early).startswith(label)
    assert blocks.label_of(later) != blocks.label_of(early)


def test_repetitions_within_one_block_are_told_apart():
    (label,) = labels(0)
    first, second = (measured(at, label, repetition=at) for at in (0, 1))
    assert blocks.label_of(first) != blocks.label_of(second)


def test_a_run_without_a_block_shares_its_label_with_no_other():
    runs = [measured(0, "", pairs=pairs) for pairs in (1, 2)]
    assert len({blocks.label_of(run) for run in runs}) == 2
    assert all(blocks.began_at(blocks.label_of(run)) == NOON for run in runs)
    assert blocks.began_at(blocks.label_of(replace(runs[0], measured_at=None))) is None


@pytest.mark.parametrize(
    ("first", "second", "apart"),
    [
        (labels(0, 60, 120), labels(0, 60, 120), False),
        (labels(0, 61, 120), labels(1, 60, 121), False),
        (labels(0, 1, 2), labels(3, 4, 5), False),  # within ten minutes
        (labels(0, 60, 120), labels(121, 180, 240), True),
        (labels(0, 90, 120), labels(30, 60, 150), False),  # a neighbour each
        (labels(0, 60, 120), labels(90, 180, 240), False),  # but for one
        (labels(0, 240, 300), labels(60, 120, 180), True),  # two turns
        (labels(0, 30, 60, 120, 180), labels(90, 150, 210, 240, 270), True),  # five turns, and three such neighbours
        (labels(0, 60, 120), labels(1, 30, 61, 90, 121, 150), False),
        (labels(0, 60), labels(61, 180, 240), True),
        ([0, 1, 2], [3, 4, 5], False),  # no times
        ([], labels(0), False),
    ],
)
def test_what_was_measured_one_after_the_other_is_apart(first, second, apart):
    assert blocks.apart(first, second) is apart
    assert blocks.apart(second, first) is apart
