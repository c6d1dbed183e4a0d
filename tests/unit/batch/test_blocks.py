"""Which cells a sweep measures side by side: ten minutes of what is compared, and some cells twice."""

import pytest

from pairlab import Spec, load_runs
from pairlab.batch import blocks, runner, schedule
from pairlab.batch.sweep_file import blocks_of, rules
from pairlab.errors import BadSweep
from pairlab.model.blocks import LONGEST_S, began_at, label_of
from tests.support.sweeps import SMALL, Executor, load

DRIVERS = ("bridge", "host", "macvlan")


def grid(**axes):
    cells = [Spec(workload="flowgen")]
    for name, values in axes.items():
        cells = [spec.replace(**{name: value}) for spec in cells for value in values]
    return cells


def begin_apart_s(block):
    """How far the begins of the first and the last cell are apart, in the order in which that is farthest."""
    takes_s = sorted(map(blocks.cell_s, block))
    return sum(takes_s[1:])


def test_a_repetition_that_is_short_is_one_block_in_an_order_of_its_own():
    cells = grid(driver=DRIVERS, pairs=(1, 2, 5), duration_s=[2.0])
    (one,), (other,) = (blocks.of_repetition(cells, seed) for seed in ("1", "2"))
    assert set(one) == set(other) == set(cells)
    assert one != other
    assert blocks.of_repetition(cells, "1") == [one]


@pytest.mark.parametrize(
    "axes",
    [
        {"experiment": ("throughput", "fct"), "driver": DRIVERS, "pairs": (1, 2, 5)},
        {"message_bytes": (64, 1024, 4096), "driver": DRIVERS, "pairs": (1, 2)},
        {"pairs": (1, 2, 5, 10), "driver": DRIVERS},
    ],
)
def test_a_longer_one_is_divided_by_what_is_least_often_compared(axes):
    cells = grid(**axes, duration_s=[60.0])
    found = blocks.of_repetition(cells, "1")
    assert sorted(map(str, cells)) == sorted(str(spec) for block in found for spec in block)
    assert len(found) > 1
    for block in found:
        assert begin_apart_s(block) <= LONGEST_S
        alike = {tuple(getattr(spec, name) for name in axes if name != "driver") for spec in block}
        assert {spec.driver for spec in block} == set(DRIVERS)
        assert len(block) == len(alike) * len(DRIVERS)


def test_drivers_are_parted_only_where_they_alone_take_too_long():
    found = blocks.of_repetition(grid(driver=DRIVERS, duration_s=[350.0]), "1")
    assert sorted(map(len, found)) == [1, 2]
    assert sorted(map(len, blocks.of_repetition(grid(driver=DRIVERS, duration_s=[700.0]), "1"))) == [1, 1, 1]


@pytest.mark.parametrize(("backend", "pairs"), [("docker", 50), ("docker", 100), ("netns", 100)])
def test_at_the_papers_scale_their_networks_are_in_one_block_with_a_twin(backend, pairs):
    cells = grid(driver=("bridge", "macvlan", "ovs", "host"), backend=[backend], pairs=[pairs], duration_s=[120.0])
    cells += blocks.twins(cells)
    together = max(blocks.of_repetition(cells, "1"), key=len)
    assert {(spec.driver, spec.twin) for spec in together} >= {
        *((driver, False) for driver in ("bridge", "macvlan", "ovs")),
        ("bridge", True),
    }


def test_a_twin_is_measured_in_the_block_of_its_cell_and_over_the_usual_network(tmp_path):
    sweep = load(tmp_path, twin=True, experiments={"throughput": {"driver": ["host", "bridge"], "pairs": [1, 2]}})
    twins = [spec for spec in rules(sweep) if spec.twin]
    assert [(spec.driver, spec.pairs) for spec in twins] == [("bridge", 1), ("bridge", 2)]
    for number in range(2):
        (block,) = blocks_of(sweep, number, rules(sweep))
        assert {spec.replace(repetition=number) for spec in rules(sweep)} == set(block)
    long = load(tmp_path, twin=True, experiments={"throughput": {"driver": ["host", "bridge"], "duration_s": 100}})
    for block in blocks_of(long, 0, rules(long)):
        assert {spec.replace(twin=False) for spec in block if spec.twin} <= set(block)


def test_a_notebook_without_the_parameter_has_no_twin(tmp_path, monkeypatch):
    monkeypatch.setattr("pairlab.batch.experiments.defaults", lambda name: {"driver": "bridge"})
    with pytest.raises(BadSweep, match="throughput has no parameter 'twin': add `twin = False`"):
        rules(load(tmp_path, twin=True))


class Notes(Executor):
    """Records the label of the block, as measuring does."""

    def __call__(self, spec):
        from pairlab.base.caller import caller

        self.labels = [*getattr(self, "labels", []), caller().block]
        return super().__call__(spec)


def test_each_cell_is_measured_under_the_label_of_its_block_and_a_resumed_one_has_another(tmp_path, runs_dir, any_host):
    plan, notes = load(tmp_path), Notes()
    runner.run(plan, execute=notes)
    first, second = dict.fromkeys(notes.labels)
    assert notes.labels == 4 * [first] + 4 * [second]
    assert began_at(first) < began_at(second)
    assert (first.endswith(f" {SMALL['name']}/0"), second.endswith(f" {SMALL['name']}/1")) == (True, True)
    more = Notes()
    runner.run(load(tmp_path, repetitions=3), execute=more)
    assert not set(more.labels) & {first, second}


def test_what_is_due_by_a_rule_is_in_blocks_too(tmp_path):
    plan = load(tmp_path)
    often = rules(plan)
    queue = schedule.BlockQueue(plan, often, schedule.Schedule(often, runner.cells(plan)), {})
    first = queue.next(None)
    assert (first.number, len(first.left), first.label.endswith("/0")) == (0, 4, True)
    queue.requeue(first)  # nothing of it was measured
    again = queue.next(None)
    assert (again.left, again.label != first.label or again is first) == (first.left, True)


def test_runs_without_a_block_are_alone(runs_dir, tmp_path, any_host):
    runner.run(load(tmp_path), execute=Executor())
    assert len({label_of(run) for run in load_runs()}) == 8
