"""Room under the kernel's limits of namespaces, told before anything is built."""

import pytest

from pairlab.apps import doctor
from pairlab.model.spec import Spec
from pairlab.testbed import plans, requirements
from pairlab.testbed.netns.backend import missing_namespaces


@pytest.fixture
def limited(monkeypatch, tmp_path):
    """A kernel that allows a user so many network namespaces."""
    monkeypatch.setattr(requirements, "NAMESPACE_LIMITS", tmp_path)
    return (tmp_path / "max_net_namespaces").write_text


ACROSS = {"driver": "overlay", "hosts": 2, "placement": "across"}


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        ({"pairs": 5}, 11),
        ({"pairs": 2, "background_pairs": 1}, 7),
        ({"pairs": 5, "driver": "container"}, 6),
        ({"pairs": 5, "driver": "host"}, 1),
        ({"pairs": 5} | ACROSS, 13),
    ],
)
def test_each_sandbox_host_and_endpoint_takes_a_namespace(limited, spec, needed):
    layout = plans.layout(Spec(workload="flowgen", **spec))
    limited(f"{needed}\n")
    assert missing_namespaces(layout) == []
    limited(f"{needed - 1}\n")
    (lack,) = missing_namespaces(layout)
    assert lack.what.startswith(f"user.max_net_namespaces is {needed - 1}, and ")
    assert lack.what.endswith(f" need {needed} network namespaces")
    assert lack.remedy == "sudo sysctl -w user.max_net_namespaces=15000, or fewer pairs"


def test_a_limit_that_cannot_be_read_is_none(limited):
    assert missing_namespaces(plans.layout(Spec(pairs=5000))) == []


def test_doctor_tells_beforehand_what_many_pairs_need(limited):
    limited("4\n")
    lacks = {name: missing for name, _, missing in doctor._extras()}["many pairs"]
    told = "user.max_net_namespaces is 4, and 100 pairs need 201 network namespaces"
    assert lacks[0].what == told
