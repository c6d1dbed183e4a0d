"""The cells that a sweep file stands for, and their order."""

from collections import Counter
from pathlib import Path

import pytest

from pairlab import paths
from pairlab.base import safe_yaml
from pairlab.batch import sweep_file
from pairlab.batch.experiments import spec_of
from pairlab.errors import BadSpec, BadSweep
from pairlab.model.spec import Spec
from tests.support.sweeps import SEVERAL, load


@pytest.mark.whole
def test_the_sweeps_in_the_repository_load():
    for file in paths.SWEEPS.glob("*.yaml"):
        todo = sweep_file.cells(sweep_file.load(file))
        assert len({spec.key for spec in todo}) == len(todo) > 0


def places(todo):
    return [(spec.driver, spec.pairs) for spec in todo]


def test_the_papers_experiments_are_swept_under_their_congestion_control_and_others_beside_it():
    for name in ("contention", "contention-small"):
        by_experiment = {}
        for spec in sweep_file.cells(sweep_file.load(sweep_file.locate(Path(name)))):
            by_experiment.setdefault(spec.experiment, set()).add(spec.congestion_control)
        assert by_experiment.pop("throughput") == {"cubic", "reno", "bbr"}
        assert by_experiment.pop("causes") == {"cubic", "bbr"}
        assert {"fct", "elephant-mice", "retransmissions", "core-ratio", "pinning", "message-size"} < set(by_experiment)
        assert set.union(*by_experiment.values()) == {"cubic"}


def test_a_folder_of_a_sweeps_name_is_not_taken_for_it(tmp_path, monkeypatch):
    (tmp_path / "try").mkdir()
    (tmp_path / "sweeps" / "smoke.yaml").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(paths, "STUDY", tmp_path)
    assert sweep_file.locate(Path("try")) == paths.ROOT / "sweeps" / "try.yaml"
    assert sweep_file.locate(Path("smoke")) == paths.ROOT / "sweeps" / "smoke.yaml"
    assert [file.name for file in paths.beside("sweeps", "*.yaml")].count("smoke.yaml") == 1
    with pytest.raises(BadSweep, match="try: Is a directory; sweeps/ has: "):
        sweep_file.load(sweep_file.locate(Path("./try/../try")))
    (tmp_path / "smoke").write_text("name: mine")
    assert sweep_file.locate(Path("smoke")) == Path("smoke")


def test_parameters_of_the_sweep_are_those_of_all_grids_that_give_no_others(tmp_path):
    grids = [{"driver": "bridge"}, {"driver": "macvlan", "duration_s": 3.0}]
    shared = {"workload": "flowgen", "duration_s": 4.0, "pairs": [1, 2]}
    todo = sweep_file.cells(load(tmp_path, parameters=shared, experiments={"throughput": grids}, repetitions=1))
    found = {(spec.driver, spec.pairs, spec.duration_s) for spec in todo}
    assert found == {("bridge", 1, 4.0), ("bridge", 2, 4.0), ("macvlan", 1, 3.0), ("macvlan", 2, 3.0)}


def test_each_repetition_visits_every_cell_once(tmp_path):
    todo = sweep_file.cells(load(tmp_path, repetitions=3))
    every = {("bridge", 1), ("bridge", 2), ("host", 1), ("host", 2)}
    for repetition in range(3):
        block = todo[4 * repetition : 4 * repetition + 4]
        assert {spec.repetition for spec in block} == {repetition}
        assert set(places(block)) == every
    assert len(todo) == 12


def test_the_same_seed_gives_the_same_order_and_another_seed_another(tmp_path):
    one = sweep_file.cells(load(tmp_path, seed=3, repetitions=5))
    again = sweep_file.cells(load(tmp_path, seed=3, repetitions=5))
    other = sweep_file.cells(load(tmp_path, seed=4, repetitions=5))
    assert one == again
    assert places(one) != places(other)
    assert sorted(places(one)) == sorted(places(other))


def test_the_blocks_of_a_sweep_are_each_in_an_order_of_their_own(tmp_path):
    todo = sweep_file.cells(load(tmp_path, repetitions=5))
    assert len({tuple(places(todo[start : start + 4])) for start in range(0, 20, 4)}) > 1


def test_more_repetitions_do_not_change_the_order_of_the_first_ones(tmp_path):
    assert sweep_file.cells(load(tmp_path, repetitions=5))[:8] == sweep_file.cells(load(tmp_path, repetitions=2))


def test_what_the_file_and_the_grid_leave_out_is_the_notebooks_own(tmp_path):
    (spec,) = sweep_file.cells(load(tmp_path, "name: one\nseed: 5\nexperiments: {throughput: {workload: flowgen}}"))
    assert (spec.seed, spec.backend, spec.driver, spec.pairs, spec.duration_s) == (5, "netns", "bridge", 2, 2.0)


def test_another_backend_can_be_told_instead_of_the_files(tmp_path):
    assert {spec.backend for spec in sweep_file.cells(load(tmp_path))} == {"netns"}
    assert {spec.backend for spec in sweep_file.cells(load(tmp_path), "docker")} == {"docker"}
    experiments = {"throughput": {"backend": ["netns", "docker"], "workload": "flowgen"}}
    both = load(tmp_path, experiments=experiments, repetitions=1)
    assert [spec.backend for spec in sweep_file.cells(both, "docker")] == ["docker"]


def test_an_experiment_may_have_several_grids_each_with_its_repetitions(tmp_path):
    todo = sweep_file.cells(load(tmp_path, experiments=SEVERAL, repetitions=3))
    counted = Counter((spec.driver, spec.repetition) for spec in todo)
    assert counted == {("macvlan", 0): 3} | {("bridge", number): 2 for number in range(3)} | {
        ("host", number): 2 for number in range(3)
    }
    assert [spec.repetition for spec in todo] == sorted(spec.repetition for spec in todo)  # blocks, as ever


def test_a_grid_for_some_backends_is_left_out_with_others(tmp_path):
    sweep = load(tmp_path, experiments=SEVERAL, repetitions=3)
    assert {spec.pairs for spec in sweep_file.cells(sweep)} == {1, 2, 5}
    with_docker = sweep_file.cells(sweep, "docker")
    assert [spec.repetition for spec in with_docker if spec.pairs == 20] == [0, 1]
    assert {spec.backend for spec in with_docker} == {"docker"}


def test_one_grid_alone_and_in_a_list_are_the_same_sweep(tmp_path):
    (grid,) = load(tmp_path).experiments["throughput"]
    assert sweep_file.cells(load(tmp_path)) == sweep_file.cells(
        load(tmp_path, experiments={"throughput": [grid.parameters]})
    )


@pytest.mark.parametrize(
    ("name", "written", "value"),
    [
        ("pairs", "010", 10),
        ("pairs", "1e1", 10),
        ("flow_bytes", "5e6", 5_000_000),
        ("flow_bytes", "5 MB", 5_000_000),
        ("flow_bytes", "5_000_000", 5_000_000),
        ("duration_s", "500 ms", 0.5),
        ("link_rate_bps", "1e8", 1e8),
        ("link_rate_bps", "+.5e9", 5e8),
        ("link_rate_bps", "100 Mbit/s", 1e8),
    ],
)
def test_a_number_is_the_same_in_a_sweep_on_the_command_line_and_in_a_spec(tmp_path, name, written, value):
    (tmp_path / "small.yaml").write_text(f"name: small\nexperiments: {{fct: {{{name}: [{written}]}}}}\n")
    ((swept,), given) = sweep_file.cells(sweep_file.load(tmp_path / "small.yaml")), spec_of("fct", {name: written})
    assert getattr(swept, name) == getattr(given, name) == value
    assert Spec(**{name: written}) == Spec(**{name: value})


@pytest.mark.parametrize("written", ["1:30", "0x10", "0b1", "yes", "1__0", "2001-02-03"])
def test_what_yaml_1_1_takes_for_a_number_is_refused_as_on_the_command_line(tmp_path, written):
    (tmp_path / "small.yaml").write_text(f"name: small\nexperiments: {{throughput: {{duration_s: {written}}}}}\n")
    with pytest.raises(BadSweep) as swept:
        sweep_file.cells(sweep_file.load(tmp_path / "small.yaml"))
    with pytest.raises(BadSpec, match=f"duration_s: '{written}' is not a number") as given:
        spec_of("throughput", {"duration_s": written})
    assert str(given.value) in str(swept.value)


def test_a_sweeps_own_numbers_are_written_as_those_of_its_cells(tmp_path):
    file = tmp_path / "small.yaml"
    file.write_text(
        "name: small\nseed: 010\nrepetitions: 1e1\nexperiments: {throughput: {until: \n"
        "  {estimate: total_throughput_bps, within: 5e-2, at_most: 2e1}}}\n"
    )
    sweep = sweep_file.load(file)
    (grid,) = sweep.experiments["throughput"]
    assert (sweep.seed, sweep.repetitions, grid.until.within, grid.until.at_most) == (10, 10, 0.05, 20)


def test_what_is_written_as_a_sweep_is_read_back_with_texts_as_texts(tmp_path):
    content = {
        "texts": ["010", "1e8", "5e6", "1:30", "yes", "0x1", "null", "~", "", "2001-02-03", "5 MB"],
        "n": [1e20, 7],
    }
    (tmp_path / "x.yaml").write_text(safe_yaml.text(content))
    assert safe_yaml.read(tmp_path / "x.yaml") == content


def test_a_sample_covers_each_axis_evenly_and_is_the_same_each_time(tmp_path):
    axes = {"driver": ["bridge", "macvlan"], "pairs": [1, 2, 3, 4, 5], "duration_s": [1, 2, 3]}
    declared = {"name": "drawn", "seed": 3, "experiments": {"throughput": {**axes, "sample": 12}}}
    cells = sweep_file.cells(sweep_file.SweepFile(**declared))
    assert len(cells) == len(set(cells)) == 12
    assert cells == sweep_file.cells(sweep_file.SweepFile(**declared))
    for name, values in axes.items():
        counts = [sum(getattr(spec, name) == value for spec in cells) for value in values]
        assert min(counts) >= 12 / len(values) / 2, (name, counts)
    everything = sweep_file.SweepFile(name="all", experiments={"throughput": {**axes, "sample": 30}})
    with pytest.raises(BadSweep, match="sample: 30 is not fewer than the combinations"):
        sweep_file.cells(everything)
