"""What a plan refuses before anything is built."""

import pytest

from pairlab.errors import BadSpec
from pairlab.model.spec import Spec
from pairlab.testbed.plans import layout

MICE = {"workload": "flowgen", "flow_bytes": 5_000_000, "elephant_bytes": 50_000_000}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({**MICE, "pairs": 10, "elephant_share": 0.05}, "elephant_share: 0.05 of 10 pairs is none, rounded"),
        ({**MICE, "pairs": 1, "elephant_share": 0.5}, "elephant_share: 0.5 of 1 pair is none, rounded"),
        (
            {"workload": "flowgen", "pairs": 10, "udp_share": 0.04},
            "udp_share: 0.04 of 10 pairs is none, .* or udp_share 0",
        ),
        (
            {"workload": "flowgen", "pairs": 10, "udp_share": 0.96},
            "udp_share: 0.96 of 10 pairs is all, .* or udp_share 1",
        ),
    ],
)
def test_a_share_that_is_none_or_all_of_the_pairs_is_refused(asked, said):
    with pytest.raises(BadSpec, match=said):
        layout(Spec(**asked))


@pytest.mark.parametrize("asked", [{"udp_share": 0.06}, {"udp_share": 0.94}, {"udp_share": 0}, {"udp_share": 1}])
def test_a_share_that_is_some_of_the_pairs_is_kept(asked):
    tasks = layout(Spec(workload="flowgen", pairs=10, **asked)).tasks
    assert sum(task.protocol == "udp" for task in tasks) == round(10 * asked["udp_share"])


def test_a_window_in_which_a_links_first_burst_counts_is_refused():
    short = Spec(workload="flowgen", link_rate_bps=1e8, duration_s=0.5)
    with pytest.raises(BadSpec, match=r"the throughput 1\.3% too high: .* a duration_s of 1\.4 or more"):
        layout(short)
    for asked in ({"duration_s": 1.4}, {"warmup_s": 0.5}, {"flow_bytes": 1000}, {"link_rate_bps": 0.0}):
        layout(short.replace(**asked))
