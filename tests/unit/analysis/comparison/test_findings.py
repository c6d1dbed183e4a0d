"""What stored runs show, in sentences: made of comparisons, grouped by outcome."""

from pairlab.analysis.comparison import findings as module
from pairlab.analysis.comparison.findings import findings
from pairlab.store.dataset import Runs
from tests.support.synthetic import run

NOISE = (1.0, 1.02, 0.99, 1.01, 0.98)


def cell(driver, gbps, pairs=1, shift=0, **spec):
    """Five repetitions around that total; of another shift, their noise is another's."""
    return [
        run([gbps * NOISE[(at + shift) % 5] / pairs] * pairs, driver=driver, repetition=at, pairs=pairs, **spec)
        for at in range(5)
    ]


def test_cells_with_the_same_outcome_are_one_sentence_that_lists_their_pairs():
    made = [
        *(each for pairs in (1, 5, 10) for each in cell("bridge", 10.0, pairs)),
        *(each for pairs in (1, 5) for each in cell("macvlan", 10.0, pairs, shift=2)),
        *cell("macvlan", 12.0, 10, shift=1),
        *(each for pairs, gbps in ((1, 5.0), (5, 4.0), (10, 2.0)) for each in cell("ovs", gbps, pairs, shift=1)),
    ]
    (paragraph,) = findings(Runs(tuple(made))).splitlines()
    assert paragraph.startswith("throughput (netns, ")
    assert "macvlan and bridge cannot be told apart at 1 and 5 pairs" in paragraph
    assert (
        "total throughput of macvlan is 20 % higher (95 % interval 16 to 24 %) than of bridge at 10 pairs" in paragraph
    )
    assert "total throughput of ovs is 50 to 80 % lower than of bridge at 1, 5 and 10 pairs" in paragraph


def test_one_run_of_each_is_called_so():
    (paragraph,) = findings(Runs((run([10.0], driver="bridge"), run([8.0], driver="ovs")))).splitlines()
    assert "ovs and bridge were measured once at 1 pair: repeat them to compare them" in paragraph


def test_runs_of_one_driver_are_compared_by_what_else_differs_and_equal_runs_not_at_all():
    assert findings(Runs(tuple(cell("bridge", 10.0)))) == ""
    grown = [*cell("bridge", 10.0, 1), *cell("bridge", 5.0, 10, shift=1)]
    assert "total throughput of 10 pairs is 50 % lower" in findings(Runs(tuple(grown)))


def test_of_many_sentences_the_first_are_printed_and_the_others_counted(monkeypatch):
    monkeypatch.setattr(module, "MOST_SENTENCES", 1)
    made = [*cell("bridge", 10.0), *cell("macvlan", 10.0, shift=2), *cell("ovs", 5.0, shift=1)]
    assert findings(Runs(tuple(made))).endswith("; 1 more comparison: see the figures.")
