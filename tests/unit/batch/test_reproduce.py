"""The line and the file that repeat a measurement give the same key."""

import shlex
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from papermill.cli import papermill as command

from pairlab.batch import experiments, sweep_file
from pairlab.errors import BadSpec
from pairlab.measurement.measure import resolve
from pairlab.model.spec import Spec

SPECS = [
    Spec(experiment="throughput", driver="macvlan", pairs=20, duration_s=3.0),
    Spec(experiment="throughput", congestion_control="reno", cpu_quota=0.5, link_rate_bps=1e9, workload="flowgen"),
    Spec(experiment="fct", workload="netcat", pairs=7, flow_bytes=5_000_000, duration_s=30.0, repetition=3, seed=11),
    Spec(experiment="udp", workload="flowgen", udp_share=0.25, udp_rate_bps=5e8, message_bytes=512, backend="docker"),
    Spec(experiment="pinning", pinning="different-cores", cores=2, duration_s=0.7),
]


def parameters_of(line):
    """What papermill itself makes of the line; nothing is executed."""
    words = shlex.split(line)
    assert words[0] == "papermill"
    context = command.make_context("papermill", words[1:], resilient_parsing=False)
    told = context.params
    from papermill.cli import _resolve_type

    values = {name: _resolve_type(value) for name, value in told["parameters"]}
    return told["notebook_path"], {**values, **dict(told["parameters_raw"])}


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.experiment)
def test_the_papermill_command_gives_the_same_key(spec):
    notebook, values = parameters_of(experiments.papermill_command(spec))
    assert notebook == f"notebooks/experiments/{experiments.notebook_of(spec.experiment).name}"
    assert resolve(experiments.spec_of(spec.experiment, values)).key == resolve(spec).key


def test_the_command_tells_only_what_differs_from_the_notebook():
    spec = experiments.spec_of("throughput", {"pairs": 9})
    assert experiments.papermill_command(spec) == (
        "papermill notebooks/experiments/01-throughput.ipynb out.ipynb -p pairs 9"
    )


@given(text=st.from_regex(r"[a-z0-9_]{0,15}", fullmatch=True))
@settings(max_examples=100)
def test_a_text_stays_a_text_even_where_it_looks_like_a_number(text):
    spec = experiments.spec_of("throughput", {"congestion_control": text, "workload": "flowgen"})
    _, values = parameters_of(experiments.papermill_command(spec))
    assert experiments.spec_of("throughput", values).key == spec.key


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.experiment)
def test_the_sweep_file_has_the_cell_and_its_repetitions(spec, tmp_path):
    file = Path(tmp_path / "sweep.yaml")
    file.write_text(experiments.sweep_text(spec, repetitions=2))
    keys = {cell.key for cell in sweep_file.cells(sweep_file.load(file))}
    assert {resolve(spec).key, resolve(spec.replace(repetition=spec.repetition + 1)).key} <= keys
    assert len(keys) == spec.repetition + 2


def test_what_the_notebook_cannot_be_told_is_refused_by_name():
    with pytest.raises(BadSpec, match="message_bytes: the notebook of 'throughput' has no such parameter"):
        experiments.papermill_command(Spec(experiment="throughput", message_bytes=64, workload="flowgen"))
