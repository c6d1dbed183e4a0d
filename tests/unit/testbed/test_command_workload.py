"""A workload that is two command lines in pairlab.toml: what it starts, how it reads, what is refused."""

import pytest

from pairlab.base import study_file
from pairlab.errors import BadInput, BadSpec
from pairlab.model.spec import Spec
from pairlab.testbed import command_workload

BLAST = {
    "server": ["blast-server", "--at", "{address}:{port}"],
    "client": ["blast", "--to", "{target}:{port}", "--seconds", "{duration_s}", "--size", "{message_bytes}"],
    "reports": {"flow_bytes": r"sent (\d+) bytes", "duration_s": "$.took[0].ms", "setup_s": "$.setup"},
    "scale": {"duration_s": 1e-3},
    "packages": {"blast": "blast-tools"},
}


def made(monkeypatch, **changed):
    table = {name: value for name, value in (BLAST | changed).items() if value is not None}
    monkeypatch.setattr(study_file, "commands", lambda: {"blast": table})
    return command_workload.declared()["blast"]


def test_its_commands_have_what_the_pair_and_the_spec_say(monkeypatch):
    workload = made(monkeypatch)()
    pair = type(
        "P", (), {"server": type("E", (), {"address": "10.0.0.2"}), "target": "10.0.0.9", "port": 5000, "index": 3}
    )
    spec = Spec(duration_s=2.5, warmup_s=0.5, message_bytes=64)
    assert workload.server(pair, spec, None) == ["blast-server", "--at", "10.0.0.2:5000"]
    assert workload.client(pair, spec, None) == ["blast", "--to", "10.0.0.9:5000", "--seconds", "3", "--size", "64"]
    assert [(each.name, each.package) for each in workload.programs] == [("blast-server", ""), ("blast", "blast-tools")]
    assert [(each.name, each.unit) for each in workload.metrics] == [("setup_s", "s")]


def test_numbers_are_read_from_json_and_text_of_either_end(monkeypatch):
    workload = made(monkeypatch)()
    (report,) = workload.parse('{"took": [{"ms": 2000}], "setup": 0.25}', "sent 1 bytes\nsent 1000 bytes\n")
    assert report.flow == {"flow_bytes": 1000, "duration_s": 2.0, "setup_s": 0.25, "throughput_bps": 4000.0}
    with pytest.raises(ValueError, match=r"blast printed no flow_bytes \(sent .*: 'nothing'"):
        workload.parse("nothing")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"client": None}, "it has no client"),
        ({"client": "blast"}, r"client: there are server \(list\), client \(list\)"),
        ({"colour": ["red"]}, "colour: there are server"),
        ({"server": ["x", 3]}, "lists of words, each a text"),
        ({"reports": {"flow_bytes": r"(\d+)"}}, "throughput_bps is needed, or flow_bytes and duration_s"),
        ({"reports": {"throughput_bps": r"\d+"}}, r"'\\\\d\+' has no group"),
        ({"reports": {"throughput_bps": "("}}, "is no regular expression"),
    ],
)
def test_what_is_wrong_is_refused_by_name(monkeypatch, changed, why):
    with pytest.raises(BadInput, match=rf"\[workloads\.blast\] in pairlab\.toml: .*{why}"):
        made(monkeypatch, **changed)


def test_a_field_that_there_is_not_is_refused_before_anything_is_built(monkeypatch):
    workload = made(monkeypatch, client=["blast", "{duration}"])()
    with pytest.raises(BadSpec, match="its command has no such field: 'duration'"):
        workload.check(Spec())
