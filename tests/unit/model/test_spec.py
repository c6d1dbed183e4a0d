"""Spec: what is refused and in which words, and keys that never change by accident."""

import contextlib
import subprocess
import sys

import numpy as np
import pytest

from pairlab import measure, open_testbed
from pairlab.analysis.advice.question import Question
from pairlab.errors import BadSpec
from pairlab.measurement.measure import resolve
from pairlab.model.spec import LARGEST, Spec, spec_from


def refusal(**values):
    with pytest.raises(BadSpec) as caught:
        Spec(**values)
    return str(caught.value)


# --- what is refused


def test_a_misspelt_parameter_is_named_with_the_one_that_was_meant():
    told = refusal(drvier="bridge")
    assert told.startswith("no parameter 'drvier'; did you mean 'driver'?")
    assert "there are: experiment, backend, driver, pairs, workload" in told


def test_an_unknown_parameter_is_told_all_there_are():
    told = refusal(zzz=1)
    assert told == f"no parameter 'zzz' (there are: {', '.join(Spec.model_fields)})"
    assert refusal(self=1).startswith("no parameter 'self'")
    assert refusal(pi=1, tau=2).count("there are: ") == 1


def test_a_wrong_name_of_a_plugin_is_refused_with_the_one_that_was_meant():
    assert refusal(driver="brige").startswith("no driver 'brige'; did you mean 'bridge'? (there are: bgp, bridge, ")
    assert refusal(driver="ipvlan").startswith("no driver 'ipvlan'; did you mean 'ipvlan-l")
    assert refusal(workload="iperf4").startswith("no workload 'iperf4'; did you mean 'iperf")
    told = refusal(backend="netnss", pinning="nones")
    assert "no backend 'netnss'; did you mean 'netns'?" in told
    assert "no pinning 'nones'; did you mean 'none'?" in told
    with pytest.raises(BadSpec, match="did you mean 'bridge'"):
        Spec().replace(driver="brige")


def test_a_name_that_users_of_calico_know_is_of_the_driver_that_stands_in_for_it():
    across = Spec(driver="bgp", hosts=2, placement="across")
    assert across.replace(driver="calico-bgp") == across
    assert Spec(driver="calico-bgp", hosts=2, placement="across").key == across.key
    assert [Spec(driver=name).driver for name in ("calico-ipip", "flannel")] == ["ipip", "flannel-vxlan"]
    assert spec_from({"driver": "calico-bgp"}, experiment="throughput").driver == "bgp"
    assert "calico" not in refusal(driver="token-ring")


def test_a_new_process_that_knows_only_the_public_name_refuses_it_too():
    program = "from pairlab import Spec\nSpec(driver='brige')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].startswith("pairlab.errors.BadSpec: no driver 'brige'; did you mean 'bridge'?")


def test_a_stored_spec_may_name_a_driver_that_is_not_installed_here():
    spec = Spec.stored({"driver": "cilium", "pairs": 3})
    assert (spec.driver, spec.replace(repetition=1).driver) == ("cilium", "cilium")
    with pytest.raises(BadSpec, match="no driver 'cilium'"):
        Spec(driver="cilium")


@pytest.mark.parametrize("function", [measure, open_testbed])
def test_what_needs_a_spec_says_how_to_make_one(function):
    name = function.__name__
    for given_instead, told in (({"driver": "bridge"}, "a dict: {}(Spec(**values))"), (5, "an int: {}(Spec(driver=")):
        with pytest.raises(BadSpec) as caught, contextlib.ExitStack() as stack:
            stack.enter_context(function(given_instead))
        assert str(caught.value).startswith(f"{name} needs a Spec, not {told.format(name)}")


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("pairs", 0, "pairs: input should be greater than or equal to 1, not 0"),
        ("pairs", 5001, "pairs: input should be less than or equal to 5000, not 5001"),
        ("pairs", "five", "pairs: 'five' is not a number"),
        ("pairs", True, "pairs: input should be a valid integer, not True"),
        ("pairs", 2.5, "pairs: input should be a valid integer, not 2.5"),
        ("duration_s", -1, "duration_s: input should be greater than 0, not -1"),
        ("duration_s", "1:30", "duration_s: '1:30' is not a number"),
        ("duration_s", None, "duration_s: input should be a valid number, not None"),
        ("max_skew_s", float("inf"), "max_skew_s: input should be a finite number, not inf"),
        ("repetition", -1, "repetition: input should be greater than or equal to 0, not -1"),
        ("seed", LARGEST + 1, f"seed: input should be less than or equal to {LARGEST}, not {LARGEST + 1}"),
        ("direction", "left", "direction: input should be 'up', 'down' or 'both', not 'left'"),
        ("placement", "across", "placement 'across' needs several hosts: give hosts"),
        ("hosts", 65, "hosts: input should be less than or equal to 64, not 65"),
        ("uplink_rate_bps", 1e9, "uplink_rate_bps: a single host has no uplink: give hosts"),
        (
            "uplink_mtu_bytes",
            1,
            "uplink_mtu_bytes: must be at least 576, which each host must take (RFC 791), or 0, not 1",
        ),
    ],
)
def test_a_wrong_value_is_named_with_its_parameter_and_what_is_allowed(name, value, told):
    assert refusal(**{name: value}) == told


@pytest.mark.parametrize("name", ["a b", "it's", 'say "x"', "two\nlines", "Bridge", "", "-b", "x" * 41, "ü", "../etc"])
def test_a_name_that_could_not_be_a_file_name_is_refused_in_one_line(name):
    told = refusal(driver=name)
    assert told == f"driver: string should match pattern '^[a-z][a-z0-9_-]{{0,39}}$', not {name!r}"
    assert "\n" not in told


def test_several_mistakes_are_all_told_at_once():
    told = refusal(pairs=0, driver="B", durations=3)
    assert "driver: " in told
    assert "pairs: " in told
    assert "no parameter 'durations'; did you mean 'duration_s'?" in told


def test_a_value_too_long_to_show_is_cut():
    assert len(refusal(duration_s="1" * 10_000)) < 200
    assert "not a value that cannot be shown (int)" in refusal(pairs=10**5000)


def test_a_warm_up_may_be_a_whole_number_of_intervals():
    assert Spec(warmup_s=0.3, interval_s=0.1).total_s == 10.3  # in binary, 0.3 / 0.1 is no whole number


def test_a_spec_cannot_be_changed_but_replaced_and_is_then_checked_again():
    spec = Spec(driver="ovs")
    with pytest.raises(ValueError, match="frozen"):
        spec.driver = "bridge"
    assert spec.replace(pairs=3) == Spec(driver="ovs", pairs=3)
    with pytest.raises(BadSpec, match="pairs"):
        spec.replace(pairs=0)


def test_a_spec_reads_as_a_sentence():
    assert str(Spec(driver="ovs", workload="iperf")) == "throughput: iperf over ovs, 1 pair, 10 s, repetition 0 (netns)"
    assert "2 pairs, 2.5 s" in str(Spec(pairs=2, duration_s=2.5))
    mice = Spec(flow_bytes=5_000_000, elephant_share=0.2, elephant_bytes=50_000_000, cores=1, pinning="same-core")
    told = "1 pair, 5,000,000 B each, 20 % elephants of 50,000,000 B, 1 core, pinned to same-core, repetition 0"
    assert told in str(mice)


# --- keys


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("44136fa355b3678a", {}),
        ("b3ddf0e299364e25", {"driver": "ovs", "pairs": 5, "duration_s": 3}),
        (
            "3d9610fde046d321",
            {"experiment": "fct", "backend": "docker", "driver": "macvlan", "pairs": 50, "workload": "iperf3"}
            | {"duration_s": 2.5, "warmup_s": 1, "interval_s": 0.25, "repetition": 4, "seed": 7, "max_skew_s": 0.05},
        ),
    ],
)
def test_keys_are_those_of_the_runs_already_stored(key, values):
    """If this fails, every stored run has lost its name: it is the hashing or a default that must go back."""
    assert Spec(**values).key == key


def test_a_whole_number_of_seconds_is_the_same_as_int_and_as_float():
    assert Spec(duration_s=3).key == Spec(duration_s=3.0).key != Spec(duration_s=3.5).key
    assert Spec(warmup_s=-0.0).key == Spec().key


def test_a_default_that_is_said_does_not_change_the_key():
    said = Spec(**{name: field.default for name, field in Spec.model_fields.items()})
    assert said.key == Spec().key


# --- starts apart


def test_each_client_is_due_a_spacing_after_the_one_before():
    spec = Spec(pairs=3, start_spacing_s=0.5, duration_s=4.0, warmup_s=1.0)
    assert [spec.due_s(pair) for pair in range(3)] == [0.0, 0.5, 1.0]
    assert (spec.last_due_s, spec.total_s, spec.traffic_s) == (1.0, 5.0, 6.0)
    assert Spec(pairs=3).traffic_s == Spec().total_s
    assert "starts 500 ms apart" in str(spec)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"start_spacing_s": -0.1}, "start_spacing_s: input should be greater than or equal to 0, not -0.1"),
        ({"start_spacing_s": float("inf")}, "start_spacing_s: "),
        ({"start_spacing_s": float("nan")}, "start_spacing_s: "),
        (
            {"start_spacing_s": 0.1, "pairs": 51, "flow_bytes": 1000, "duration_s": 5},
            "start_spacing_s 0.1: the last of 51 clients starts after 5 s, when the time of the first is over",
        ),
        (
            {"start_spacing_s": 0.1, "pairs": 11, "duration_s": 1.9},
            "the last of 11 clients starts after 1 s, and all must send together for two intervals of 0.5 s:"
            " make duration_s at least 2",
        ),
        ({"start_spacing_s": 0.1, "pairs": 2, "udp_share": 0.5}, "use start_spacing_s with TCP only"),
        ({"direction": "down", "udp_share": 1.0}, "direction 'down': UDP flows go up: use it with TCP only"),
        ({"direction": "both", "udp_share": 0.5}, "direction 'both': UDP flows go up: use it with TCP only"),
        ({"direction": "down", "link_rate_bps": 1e8}, "link_rate_bps: it limits what clients send"),
        ({"direction": "down", "link_loss": 0.1}, "link_loss: it limits what clients send"),
        ({"ip_version": 6, "link_loss": 0.1}, "link_loss: packets of IPv4 alone are dropped"),
        ({"ip_version": 6, "launches": 1, "driver": "bridge"}, "ip_version: launches send no traffic"),
        ({"duration_s": 1, "interval_s": 2}, "interval_s 2 is longer than duration_s 1"),
        ({"warmup_s": 0.7}, "warmup_s 0.7 must be a whole number of intervals of 0.5 s"),
    ],
)
def test_values_that_do_not_fit_together_are_refused(values, told):
    assert told in refusal(**values)


@pytest.mark.parametrize(
    "values",
    [
        {"start_spacing_s": 0.1, "pairs": 50, "flow_bytes": 1000, "duration_s": 5},
        {"start_spacing_s": 0.1, "pairs": 11, "duration_s": 2},
        {"start_spacing_s": 60, "pairs": 1},
    ],
)
def test_starts_that_just_fit_are_taken(values):
    assert Spec(**values).start_spacing_s == values["start_spacing_s"]


def test_what_reports_no_intervals_cannot_leave_out_what_was_sent_before_all_did():
    asked = {"pairs": 3, "start_spacing_s": 0.1, "duration_s": 3}
    with pytest.raises(BadSpec, match="start_spacing_s"):
        resolve(Spec(workload="sockperf", message_bytes=1000, **asked))
    assert resolve(Spec(workload="flowgen", **asked)).workload == "flowgen"


def test_a_pair_has_flows_in_each_direction_that_is_asked_for():
    assert [Spec(direction=direction).directions for direction in ("up", "down", "both")] == [
        ("up",),
        ("down",),
        ("up", "down"),
    ]
    assert "in both directions" in str(Spec(direction="both"))
    assert Spec(direction="down").key != Spec().key == Spec(direction="up").key


def test_numbers_of_numpy_make_the_same_spec():
    found = Spec(pairs=np.int64(3), duration_s=np.float32(2.5), profile=np.bool_(True), driver=np.str_("macvlan"))
    assert found == Spec(pairs=3, duration_s=2.5, profile=True, driver="macvlan")
    assert found.key == Spec(pairs=3, duration_s=2.5, profile=True, driver="macvlan").key
    assert Question(pairs=np.int64(3)) == Question(pairs=3)


def test_hosts_that_share_a_kernel_are_called_nothing_else_and_older_runs_that_do_can_be_read():
    asked = {"experiment": "virtualization", "workload": "flowgen", "hosts": 2, "placement": "across"}
    called = Spec(host_kind="virtual", driver="overlay", **asked)
    assert Spec.stored(called.model_dump(exclude_defaults=True)).key == called.key
    with pytest.raises(
        BadSpec, match=r"host_kind: hosts of backend 'netns' share this machine's kernel, .*: leave it out"
    ):
        resolve(called)
    assert resolve(Spec(driver="overlay", **asked)).host_kind == ""


def namespace_of(*cells):
    """globals() after these cells of a notebook."""
    found = {"__name__": "__main__", "In": [""]}
    for cell in cells:
        found["In"].append(cell)
        exec(cell, found)
    return found


@pytest.mark.parametrize("module", ["math", "socket", "numpy", "os"])
def test_what_a_notebook_imports_is_no_parameter(module):
    cells = ("pairs = 5", f"from {module} import *", "import requests\ndef profile(): ...\nclass capture: ...")
    expected = Spec(pairs=5, experiment="mine")
    assert spec_from(namespace_of(*cells), experiment="mine") == expected
    given = namespace_of(*reversed(cells))
    assert spec_from(given, experiment="mine") == expected
    del given["In"]  # as in a script
    assert spec_from(given, experiment="mine") == expected


def test_a_value_that_is_computed_or_put_there_is_a_parameter_too():
    given = namespace_of("pairs = 2", "pairs = 2 * pairs\nscale = 1e6\nfor seed in range(3): pass")
    given["duration_s"] = 3.5
    assert spec_from(given, experiment="mine") == Spec(pairs=4, seed=2, duration_s=3.5, experiment="mine")


APART = "leave it out, or set it in a cell without parameters"


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (("pairs = 2\npair = 3",), "no parameter 'pair'; did you mean 'pairs'? (cell [1]: pair = 3)"),
        (("pairs = 2", "drivr = 'ovs'"), "no parameter 'drivr'; did you mean 'driver'? (cell [2]: drivr = 'ovs')"),
        (("# Parameters\nseeds = 5",), "no parameter 'seeds'; did you mean 'seed'? (cell [1]: seeds = 5)"),
        (("fresh = True\nnote = 'quick'",), f"no parameter 'note' (cell [1]: note = 'quick'): {APART}"),
        (("# Parameters\nzzz = 1",), f"no parameter 'zzz' (cell [1]: zzz = 1): {APART}"),
        (
            ("requests = 10", "import requests"),
            "requests is not what it was set to (cell [1]: requests = 10), but imported: import it by another name",
        ),
    ],
)
def test_a_literal_with_a_wrong_name_is_refused_in_one_line_with_its_cell(cells, told):
    with pytest.raises(BadSpec) as caught:
        spec_from(namespace_of(*cells), experiment="mine")
    assert str(caught.value) == told
