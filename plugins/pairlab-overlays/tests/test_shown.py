"""What pictures and figures have of runs over these networks, from their facts."""

import pytest

from pairlab.analysis.figures import style
from pairlab.base import topology
from pairlab.testbed import registry
from pairlab_overlays import shown


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        ({"flannel": {"backend": "host-gw"}}, "flanneld, backend host-gw"),
        ({"weave": "weave 2.8.1", "weaver": {"connections": []}}, "weaver, carries frames in UDP"),
    ],
)
def test_a_picture_names_the_daemon_that_carries_packets(facts, line):
    ends = [{"name": "client-0"}, {"name": "server-0"}]
    network = {"hosts": [{"name": "host-0", "links": [], "endpoints": ends, "endpoint_count": 2}], **facts}
    assert f"client-0, server-0 on {line}" in topology.describe(network)


def test_figures_take_the_styles_of_this_package():
    assert tuple(style.driver_style("flannel-udp").values()) == shown.FLANNEL_UDP
    flannel = {name: style.driver_style(name) for name in registry.drivers.names() if name.startswith("flannel-")}
    assert len({each["marker"] for each in flannel.values()}) == len(flannel) == 3
