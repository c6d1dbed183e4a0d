import pytest

from pairlab.analysis import question
from pairlab.analysis.output.formatting import size_text
from pairlab.analysis.questions import message_size
from tests.support import synthetic_contention as synthetic


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return synthetic.write_message_size(tmp_path_factory.mktemp("runs") / "sizes")


@pytest.fixture(scope="module")
def answer(runs):
    return question.ask("message-size", runs)


@pytest.fixture(scope="module")
def repetitions(answer):
    return answer.repetitions


def test_steady_growth_has_a_trend_and_its_reverse_has_none(repetitions):
    found = message_size.trends(repetitions)
    assert (found["p"] < 0.01).all()
    assert (found["n"] == 3).all()
    reverse = repetitions.assign(total_bps=-repetitions["total_bps"])
    assert (message_size.trends(reverse)["p"] > 0.9).all()


def test_two_sizes_or_one_repetition_carry_no_trend_and_say_so(repetitions):
    for few in (repetitions[repetitions["message_bytes"] <= 1024], repetitions[repetitions["repetition"] == 0]):
        found = message_size.trends(few)
        assert found["p"].isna().all()
        assert found["gap"].str.contains("Page's test needs 2 with 3").all()


@pytest.mark.parametrize(("size", "text"), [(64, "64 B"), (1024, "1 KiB"), (65507, "65,507 B"), (2 << 20, "2 MiB")])
def test_sizes_are_told_in_the_largest_whole_unit(size, text):
    assert size_text(size) == text
