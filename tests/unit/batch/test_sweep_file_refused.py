"""Sweep files that are refused, before anything is measured: in one line that names what is wrong and where."""

import pytest

from pairlab.batch import runner, sweep_file
from pairlab.batch.experiments import notebooks
from pairlab.errors import BadSweep
from pairlab.testbed import registry
from tests.support.sweeps import Executor, load


def refusal(folder, *arguments, **changes):
    with pytest.raises(BadSweep) as caught:
        sweep_file.cells(load(folder, *arguments, **changes))
    told = str(caught.value)
    assert "\n" not in told
    return told


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"repetition": 3}, "unknown key 'repetition' (there are: name, description, seed, repetitions, until,"),
        ({"name": "a b"}, "name: string should match pattern"),
        ({"seed": "three"}, "seed: 'three' is not a number"),
        ({"repetitions": 0}, "repetitions: input should be greater than or equal to 1"),
        ({"repetitions": 1.5}, "repetitions: input should be a valid integer"),
        ({"unavailable": "maybe"}, "unavailable: input should be 'skip' or 'fail'"),
        ({"experiments": {}}, "experiments: dictionary should have at least 1 item"),
        ({"experiments": ["throughput"]}, "experiments: input should be a valid dictionary"),
        (
            {"experiments": {"throughput": None}},
            "experiments.throughput: must be a mapping of parameters to values, or",
        ),
        ({"experiments": {"throughput": [{}, 3]}}, "experiments.throughput: must be a mapping of parameters to values"),
        ({"experiments": {"throughput": []}}, "experiments.throughput: must be a mapping of parameters to values, or"),
        ({"experiments": {"throughput": {"repetitions": 0}}}, "experiments.throughput.0.repetitions: input should be"),
        ({"experiments": {"throughput": {"backends": "netns"}}}, "throughput.0.backends: input should be a valid list"),
        ({"two\nlines": 1}, "unknown key 'two\\nlines'"),
    ],
)
def test_a_key_that_is_wrong_is_named_with_its_file(tmp_path, changes, told):
    assert told in refusal(tmp_path, **changes)
    assert refusal(tmp_path, **changes).startswith(f"{tmp_path / 'small.yaml'}: ")


def test_a_sweep_must_have_a_name_and_experiments(tmp_path):
    assert "name: field required" in refusal(tmp_path, "experiments: {throughput: {}}")
    assert "experiments: field required" in refusal(tmp_path, "name: small")


@pytest.mark.parametrize("text", ["name: [small", "name: small\n\tseed: 1", "a: b: c", "name: *nobody", "{[1]: 2}"])
def test_what_is_not_yaml_is_refused_in_one_line(tmp_path, text):
    assert " is not YAML: " in refusal(tmp_path, text)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "small.yaml").write_bytes(b"name: \xff\xfe")
    with pytest.raises(BadSweep, match="is not YAML"):
        sweep_file.load(tmp_path / "small.yaml")


@pytest.mark.parametrize("text", ["", "small", "- small", "3"])
def test_what_is_no_mapping_is_told_its_keys(tmp_path, text):
    assert "must be a mapping with the keys name, description, seed, repetitions" in refusal(tmp_path, text)


def test_keys_that_are_no_words_are_refused(tmp_path):
    assert "keys must be words" in refusal(tmp_path, "1: 2\nname: small")


def test_a_missing_file_lists_those_there_are(tmp_path):
    with pytest.raises(BadSweep, match=r"nowhere\.yaml: No such file or directory; sweeps/ has: .*smoke\.yaml"):
        sweep_file.load(tmp_path / "nowhere.yaml")
    with pytest.raises(BadSweep, match=r"Is a directory; sweeps/ has: "):
        sweep_file.load(tmp_path)


@pytest.mark.parametrize(
    ("experiments", "told"),
    [
        ({"thruput": {}}, f"no experiment 'thruput'; did you mean 'throughput'? (there are: {', '.join(notebooks())})"),
        ({"throughput": {"drivers": ["bridge"]}}, "no parameter 'drivers'; did you mean 'driver'?"),
        ({"throughput": {"pairs": [1, 0]}}, "pairs: input should be greater than or equal to 1, not 0"),
        ({"throughput": {"pairs": [[1, 2]]}}, "pairs: input should be a valid integer, not [1, 2]"),
        ({"throughput": {"pairs": []}}, "pairs: an axis must list values, each once, not []"),
        ({"throughput": {"pairs": [1, 2, 1]}}, "pairs: an axis must list values, each once, not [1, 2, 1]"),
        ({"throughput": {"duration_s": [2, 2.0]}}, "has a cell more than once: throughput: "),
        ({"throughput": {"repetition": 1}}, "'repetition' is set by the sweep, not by its grid"),
        ({"throughput": {"fresh": True}}, "'fresh' is set by the sweep, not by its grid"),
        (
            {"throughput": {"driver": ["bridge", "brigde"]}},
            f"no driver 'brigde'; did you mean 'bridge'? (there are: {', '.join(registry.drivers.names())})",
        ),
        (
            {"throughput": {"workload": "ping"}},
            f"no workload 'ping' (there are: {', '.join(registry.workloads.names())}, auto)",
        ),
        (
            {"throughput": {"backend": "podman"}},
            f"no backend 'podman' (there are: {', '.join(registry.backends.names())})",
        ),
        ({"throughput": {"backends": ["podman"]}}, "no backend 'podman' (there are: "),
        ({"throughput": {"repetitions": 3}}, "repetitions: a grid cannot have 3, as the sweep has 2"),
        ({"throughput": [{}, {"pairs": [3, 2]}]}, "has a cell more than once: throughput: "),
        ({"throughput": {"backends": ["docker"]}}, "has no cell for backend 'netns': check `backends` in its grids"),
        ({"throughput": [{}, {"backends": ["docker"], "pairs": 0}]}, "pairs: input should be greater than or equal"),
        ({"throughput": {"workload": "iperf3", "duration_s": 2.5}}, "iperf3 sends for whole seconds only"),
        ({"throughput": {}, "": {}}, "no experiment ''"),
    ],
)
def test_a_grid_that_cannot_be_measured_is_refused_as_a_whole(tmp_path, runs_dir, experiments, told):
    executor = Executor()
    with pytest.raises(BadSweep, match="sweep 'small'") as caught:
        runner.run(load(tmp_path, experiments=experiments), execute=executor)
    assert told in str(caught.value)
    assert executor.given == []
    assert not runs_dir.exists()


def test_a_backend_there_is_not_is_refused_wherever_it_is_said(tmp_path):
    assert "no backend 'podman' (there are:" in refusal(tmp_path, backend="podman")
    with pytest.raises(BadSweep, match="no backend 'podman'"):
        sweep_file.cells(load(tmp_path), "podman")
