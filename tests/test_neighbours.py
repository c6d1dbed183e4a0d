"""A testbed whose endpoints cannot all know each other is refused before it is built."""

import pytest

from pairlab import Spec, measure
from pairlab.errors import Unavailable
from pairlab.testbed import neighbours, registry
from tests.conftest import need


@pytest.fixture
def room_for(tmp_path, monkeypatch):
    """Sets how many neighbours the kernel says it can know; None where it does not say."""

    def limit(entries):
        place = tmp_path / "gc_thresh3"
        if entries is not None:
            place.write_text(f"{entries}\n")
        monkeypatch.setattr(neighbours, "LIMIT", place)

    return limit


def lacks(pairs, driver="macvlan"):
    return neighbours.lacks(Spec(pairs=pairs, driver=driver), registry.drivers.get(driver))


def test_more_endpoints_than_the_kernel_can_know_are_refused_with_the_setting_that_helps(room_for):
    room_for(1024)
    assert lacks(504) == []
    (lack,) = lacks(505)
    assert str(lack) == (
        "the kernel knows 1024 neighbours at most, and 505 pairs need 1026:"
        " sudo sysctl -w net.ipv4.neigh.default.gc_thresh3=2052, or fewer pairs"
    )


def test_endpoints_without_links_of_their_own_have_no_neighbours(room_for):
    room_for(16)
    assert lacks(100, "host") == []
    assert lacks(1) != []


def test_a_kernel_that_does_not_say_refuses_nothing(room_for):
    room_for(None)
    assert lacks(4000) == []


def test_it_is_a_recorded_skip_and_nothing_is_built(room_for, runs_dir, clean_host):
    need("netns")
    room_for(20)
    with pytest.raises(Unavailable, match="3 pairs need 22"):
        measure(Spec(pairs=3, workload="flowgen"))
    assert '"skipped"' in next(runs_dir.glob("*/*/run.json")).read_text()
