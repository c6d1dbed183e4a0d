"""What a sandbox and its agent say to each other is data, whoever says it."""

import json
import os
import pickle
from multiprocessing import Pipe

import pytest

from pairlab.testbed.endpoints import EndpointPlan, Limits, Link
from pairlab.testbed.netns import protocol
from pairlab.testbed.requirements import MissingRequirement


@pytest.fixture
def ends():
    one, other = Pipe()
    with one, other:
        yield one, other


def test_plans_go_into_a_sandbox_as_they_are(ends):
    plan = EndpointPlan(3, "server", "10.77.0.8", 16, Limits((0, 2), 0.5, 1024), Link(1e9, 0.01))
    protocol.send(ends[0], ("build", [[plan, EndpointPlan(4, "client", "10.77.0.9")], {"client-4": 7}]))
    name, (endpoints, given) = protocol.receive(ends[1], protocol.OF_CALLS)
    assert (name, endpoints[0], given) == ("build", plan, {"client-4": 7})
    assert endpoints[1] == EndpointPlan(4, "client", "10.77.0.9")


def test_an_answer_has_facts_and_lacks_and_no_other_kind(ends):
    protocol.send(
        ends[0], (True, [MissingRequirement("no bridge", "modprobe bridge"), {"mtu_bytes": 1500, "ports": None}])
    )
    assert protocol.receive(ends[1], protocol.OF_ANSWERS) == [
        True,
        [MissingRequirement("no bridge", "modprobe bridge"), {"mtu_bytes": 1500, "ports": None}],
    ]
    protocol.send(ends[0], (True, Limits()))
    with pytest.raises(ValueError, match="'Limits' is not expected"):
        protocol.receive(ends[1], protocol.OF_ANSWERS)


class Runs:
    """Unpickled, it makes a folder."""

    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return os.mkdir, (str(self.place),)


def test_a_pickle_is_no_answer_and_does_nothing(ends, tmp_path):
    place = tmp_path / "made"
    ends[0].send_bytes(pickle.dumps((True, Runs(place))))
    with pytest.raises(ValueError, match=r"codec|Expecting"):
        protocol.receive(ends[1], protocol.OF_ANSWERS)
    assert not place.exists()


@pytest.mark.parametrize(
    "said",
    [
        {"pairlab kind": "MissingRequirement"},
        {"pairlab kind": "MissingRequirement", "what": "a"},
        {"pairlab kind": "Popen", "args": ["id"]},
    ],
)
def test_a_kind_that_is_none_or_lacks_its_values_is_refused(ends, said):
    ends[0].send_bytes(json.dumps(said).encode())
    with pytest.raises(ValueError, match=r"no MissingRequirement|not expected"):
        protocol.receive(ends[1], protocol.OF_ANSWERS)


def test_an_answer_without_end_is_not_awaited(ends, monkeypatch):
    monkeypatch.setattr(protocol, "_MOST_BYTES", 100)
    protocol.send(ends[0], "x" * 200)
    with pytest.raises(OSError, match="bad message length"):
        protocol.receive(ends[1], protocol.OF_ANSWERS)


def test_what_is_no_data_cannot_be_sent(ends):
    with pytest.raises(TypeError, match="cannot be sent"):
        protocol.send(ends[0], object())
