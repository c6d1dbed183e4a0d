import itertools
import subprocess
import sys

import pytest

from pairlab.analysis.driver_order import ordered
from pairlab.analysis.figures import style
from pairlab.base import entry_points
from tests.support.colours import EYES, contrast, distance, lightness

#: Drivers by name, with a few that nobody named yet.
COLOURS = {driver: style.driver_style(driver)["color"] for driver in style.DRIVERS}
#: Names that plugins may have.
PLUGINS = (
    *("calico", "weave", "flannel", "cilium", "ipvlan", "vxlan", "geneve", "wireguard"),
    *("sriov", "slirp4netns", "pasta", "passt", "tap", "tun", "vhost", "vde"),
    *("vpp", "dpdk", "afxdp", "netkit", "l2tp", "gre", "cable", "overlay"),
)


def closest(colours, measure):
    """The two colours between which the measure is least, and what it is."""
    return min((measure(colours[one], colours[other]), one, other) for one, other in itertools.combinations(colours, 2))


@pytest.mark.parametrize("eyes", EYES)
def test_drivers_are_told_apart_by_colour_with_any_eyes(eyes, record_property):
    apart, one, other = closest(COLOURS, lambda a, b: distance(a, b, eyes))
    record_property(f"least_distance/{eyes}", apart)
    assert apart >= 25, (one, other)


def test_drivers_are_different_greys_in_print(record_property):
    apart, one, other = closest(COLOURS, lambda a, b: abs(lightness(a) - lightness(b)))
    record_property("least_lightness_step", apart)
    assert apart >= 10, (one, other)


def test_drivers_differ_in_marker_and_dash_too():
    styles = [style.driver_style(driver) for driver in style.DRIVERS]
    for part in ("marker", "linestyle"):
        assert len({str(style[part]) for style in styles}) == len(styles)


def test_networks_of_one_figure_differ_in_marker_and_in_colour_or_dash():
    """Lines have no markers everywhere: a CDF has none."""
    together = ("process", "bgp", "nat", "overlay", *entry_points.added("styles"))
    styles = [style.driver_style(driver) for driver in (*style.DRIVERS, *together, "container", "none")]
    assert len({(each["color"], str(each["linestyle"])) for each in styles}) == len(styles)
    assert len({each["marker"] for each in styles}) == len(styles)


@pytest.mark.parametrize(
    "driver", [*style.DRIVERS, *style._NAMED, *entry_points.added("styles"), "calico", "weave", "flannel", "cilium"]
)
def test_every_line_stands_out_from_white(driver):
    assert contrast(style.driver_style(driver)["color"]) >= 3


@pytest.mark.parametrize("eyes", EYES)
def test_drivers_that_nobody_named_get_colours_of_their_own_apart_from_the_known_ones(eyes):
    unknown = [style.driver_style(driver)["color"] for driver in PLUGINS]
    assert len(set(unknown)) == len(PLUGINS)
    for color in (*unknown, *(style.driver_style(f"driver{number}")["color"] for number in range(40))):
        assert min(distance(color, known, eyes) for known in COLOURS.values()) >= 25, color


def test_an_unknown_driver_looks_the_same_in_every_process():
    told = "from pairlab.analysis.figures.style import driver_style; print(driver_style('calico'))"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(style.driver_style("calico"))


def test_the_known_drivers_come_first_in_one_order():
    assert ordered(["zeta", "ovs", "alpha", "bridge"]) == ["bridge", "ovs", "alpha", "zeta"]
    assert ordered(["nat", "process", "host"]) == ["host", "process", "nat"], "both are a host's own network"


def test_the_parts_of_cpu_time_look_like_no_driver_and_differ_as_greys():
    parts = style.CPU_COLOURS
    assert closest(parts, lambda a, b: abs(lightness(a) - lightness(b)))[0] >= 5
    for driver, part in itertools.product(COLOURS.values(), parts.values()):
        assert distance(driver, part) >= 20, (driver, part)


def test_columns_are_as_wide_as_those_of_the_paper():
    pica_in = 12 / 72.27
    assert pytest.approx(21 * pica_in, abs=0.01) == style.COLUMN_IN
    assert pytest.approx(43 * pica_in, abs=0.015) == style.PAGE_IN
