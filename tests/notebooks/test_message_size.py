import pytest

from pairlab.analysis.output.formatting import size_text
from pairlab.analysis.questions import message_size
from tests.support import asked


@pytest.fixture
def steady(ask):
    """Repetitions in which the total grows with the message size."""
    repetitions = ask("message-size", asked.runs_of("message-size", 3)).repetitions
    return repetitions.assign(total_bps=1e6 * repetitions["message_bytes"])


def test_steady_growth_has_a_trend_and_its_reverse_has_none(steady):
    found = message_size.trends(steady)
    assert (found["p"] < 0.01).all()
    assert (found["n"] == 3).all()
    reverse = steady.assign(total_bps=-steady["total_bps"])
    assert (message_size.trends(reverse)["p"] > 0.9).all()


def test_two_sizes_or_one_repetition_carry_no_trend_and_say_so(steady):
    for few in (steady[steady["message_bytes"] <= 1024], steady[steady["repetition"] == 0]):
        found = message_size.trends(few)
        assert found["p"].isna().all()
        assert found["gap"].str.contains("Page's test needs 2 with 3").all()


@pytest.mark.parametrize(("size", "text"), [(64, "64 B"), (1024, "1 KiB"), (65507, "65,507 B"), (2 << 20, "2 MiB")])
def test_sizes_are_told_in_the_largest_whole_unit(size, text):
    assert size_text(size) == text
