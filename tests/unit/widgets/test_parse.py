"""What people type into the form becomes a Spec, or errors beside the fields they belong to."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairlab.batch import experiments, sweep_file
from pairlab.errors import BadSpec, TestbedError, Unavailable
from pairlab.model.spec import Spec
from pairlab.widgets import parse
from pairlab.widgets.parse import NO_FIELD

EXPERIMENTS = sorted(experiments.notebooks())


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_the_notebooks_own_values_are_shown_and_read_back_as_they_are(experiment):
    entered = {name: parse.as_text(name, value) for name, value in experiments.defaults(experiment).items()}
    assert parse.read(experiment, entered).spec == experiments.spec_of(experiment, {})


def test_numbers_may_be_typed_as_people_write_them():
    found = parse.read("fct", {"flow_bytes": "5 MB", "pairs": " 1e1 ", "duration_s": "500 ms", "interval_s": "0.5"})
    assert (found.spec.flow_bytes, found.spec.pairs, found.spec.duration_s) == (5_000_000, 10, 0.5)


def test_a_large_seed_is_read_to_its_last_digit():
    assert parse.read("throughput", {"seed": str(2**63 - 1)}).spec.seed == 2**63 - 1


@pytest.mark.parametrize(
    ("experiment", "entered", "field", "words"),
    [
        ("throughput", {"pairs": "abc"}, "pairs", "'abc' is not a number"),
        ("throughput", {"pairs": ""}, "pairs", "give a number"),
        ("throughput", {"pairs": "2.5"}, "pairs", "must be a whole number, not 2.5"),
        ("throughput", {"pairs": "0"}, "pairs", "should be greater than or equal to 1, not 0"),
        ("throughput", {"pairs": "600"}, "pairs", "'bridge' can have at most 511, not 600"),
        ("throughput", {"duration_s": "-1"}, "duration_s", "should be greater than 0"),
        ("throughput", {"interval_s": "5"}, "interval_s", "longer than duration_s"),
        ("throughput", {"workload": "netcat"}, "workload", "cannot send for a given time"),
        ("throughput", {"cpu_quota": "9999"}, "cpu_quota", "should be less than or equal to 4096"),
        ("throughput", {"driver": "token-ring"}, "driver", "there are: bgp, bridge"),
        ("throughput", {"congestion_control": "No!"}, "congestion_control", "should match pattern"),
        ("core-ratio", {"cores": "4000"}, "cores", "this process may use"),
        ("elephant-mice", {"elephant_share": "0"}, "elephant_share", "belong together"),
        ("throughput", {"repetitions": "0"}, "repetitions", "from 1 to 1,000"),
    ],
)
def test_an_error_stands_at_its_field_and_nothing_is_asked_for(experiment, entered, field, words):
    found = parse.read(experiment, entered)
    assert found.spec is None
    assert list(found.errors) == [field]
    assert words in found.errors[field]


def test_each_wrong_field_has_an_error_of_its_own():
    found = parse.read("throughput", {"pairs": "x", "duration_s": "-1", "link_loss": "2"})
    assert set(found.errors) == {"pairs", "duration_s", "link_loss"}


def test_repetitions_and_measuring_again_are_no_part_of_the_spec():
    found = parse.read("throughput", {"repetitions": "5", "fresh": True})
    assert (found.repetitions, found.fresh) == (5, True)
    assert found.spec == experiments.spec_of("throughput", {})


#: Numbers that forms have fields for; no form has all of them.
NUMBERS = [
    *("pairs", "duration_s", "seed", "interval_s", "repetition", "max_skew_s"),
    *("launches", "idle_pairs", "ranks", "hosts"),
]


@st.composite
def forms(draw):
    """An experiment, and what is typed into fields that its form has."""
    experiment = draw(st.sampled_from(EXPERIMENTS))
    there_are = experiments.defaults(experiment)
    names = st.sampled_from([*(name for name in NUMBERS if name in there_are), "repetitions"])
    typed = st.text(max_size=30) | st.from_regex(r"-?\d{1,25}(\.\d+)?(e\d+)? ?(s|ms|B)?", fullmatch=True)
    return experiment, draw(st.dictionaries(names, typed, max_size=4))


@given(forms())
@settings(max_examples=150)
def test_whatever_is_typed_gives_a_spec_or_errors_of_fields_that_there_are(form):
    experiment, entered = form
    found = parse.read(experiment, entered)
    assert (found.spec is None) == bool(found.errors)
    assert set(found.errors) <= {*experiments.defaults(experiment), "repetitions", NO_FIELD}
    assert all(words.strip() for words in found.errors.values())


@pytest.mark.parametrize(
    ("error", "field"),
    [
        (Unavailable("driver 'ovs': ovs-vswitchd is not installed: sudo apt-get install openvswitch-switch"), "driver"),
        (Unavailable("backend 'docker': no daemon answers: start it"), "backend"),
        (Unavailable("50 pairs: the kernel knows 100 neighbours at most: fewer pairs"), "pairs"),
        (Unavailable("congestion control: the kernel has no 'vegas': modprobe tcp_vegas"), "congestion_control"),
        (BadSpec("cpu_quota: must be from 0.01 to the 2 CPUs there are, not 3"), "cpu_quota"),
        (TestbedError("the sandbox did not start"), NO_FIELD),
    ],
)
def test_what_this_host_lacks_stands_at_the_field_it_is_about(error, field):
    def check(spec):
        raise error

    found = parse.host_errors(Spec(workload="flowgen"), check)
    assert list(found) == [field]
    assert str(error).rpartition(": ")[2] in found[field]


def test_a_host_that_can_do_it_lacks_nothing():
    assert parse.host_errors(Spec(workload="flowgen"), lambda spec: None) == {}


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("pairs", "Pairs"),
        ("duration_s", "Duration (s)"),
        ("flow_bytes", "Flow size (B)"),
        ("udp_rate_bps", "UDP rate (bit/s)"),
        ("max_skew_s", "Max. skew (s)"),
        ("requests_per_s", "Requests (1/s)"),
        ("cpu_quota", "CPU quota"),
        ("fresh", "Measure again"),
    ],
)
def test_a_label_has_the_unit(name, label):
    assert parse.label(name) == label


def test_several_values_are_a_grid_of_every_combination(tmp_path):
    asked = parse.read("fct", {"several": "driver=bridge, macvlan  flow_bytes=1 MB,5MB pairs=3", "duration_s": "1"})
    assert asked.errors == {}
    assert [(each.driver, each.flow_bytes, each.pairs) for each in asked.cells] == [
        ("bridge", 1_000_000, 3),
        ("bridge", 5_000_000, 3),
        ("macvlan", 1_000_000, 3),
        ("macvlan", 5_000_000, 3),
    ]
    file = tmp_path / "grid.yaml"
    file.write_text(experiments.sweep_text(asked.spec, 2, asked.several))
    found = sweep_file.cells(sweep_file.load(file))
    assert {each.replace(repetition=0, seed=0) for each in found} == {each.replace(seed=0) for each in asked.cells}
    assert len(found) == 2 * len(asked.cells)


@pytest.mark.parametrize(
    ("several", "why"),
    [
        ("pair=1,2", "did you mean 'pairs'"),
        ("backend=netns,docker", "names no parameter of a grid"),
        ("pairs", "names no parameter of a grid"),
        ("pairs=1,x", "is not a number"),
        ("pairs=1,0", "pairs"),
        ("pairs=" + ",".join(map(str, range(1, 1500))), "1,499 cells"),
    ],
)
def test_what_is_no_grid_is_refused_at_its_field(several, why):
    asked = parse.read("throughput", {"several": several})
    assert why in asked.errors["several"]
    assert asked.spec is None


def test_several_values_in_a_field_are_a_grid():
    asked = parse.read("fct", {"pairs": "1,2, 3", "flow_bytes": "1 MB, 5 MB", "several": "driver=bridge,host"})
    assert asked.errors == {}
    assert len(asked.cells) == 12
    assert {(each.pairs, each.flow_bytes) for each in asked.cells} >= {(2, 1_000_000), (3, 5_000_000)}


@pytest.mark.parametrize(
    ("field", "text", "why"),
    [
        ("duration_s", "1,5", "decimal point"),
        ("pairs", "1,99999", "not 99999"),
        ("pairs", "1, many", "is not a number"),
    ],
)
def test_what_is_no_list_of_values_is_refused_at_its_field(field, text, why):
    asked = parse.read("throughput", {field: text})
    assert (list(asked.errors), asked.spec) == ([field], None)
    assert why in asked.errors[field]


def test_grids_of_different_values_are_different_sweeps():
    names = {
        experiments.sweep_plan(asked.spec, 1, asked.several)["name"]
        for several in ("pairs=1,2", "pairs=1,3", "")
        for asked in [parse.read("throughput", {"several": several})]
    }
    assert len(names) == 3
