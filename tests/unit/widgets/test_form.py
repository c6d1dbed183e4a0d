"""The form, driven without a browser."""

import pytest

from pairlab.errors import BadInput, UnknownName
from pairlab.model.spec import Spec
from pairlab.widgets import form as form_module
from pairlab.widgets.form import Form, group_of
from tests.unit.widgets.fakes import html


def form(host, **preset):
    found = Form(preset, choices=host.choices(), check=lambda spec: None)
    found.read()
    return found


def classes(widget):
    return set(widget._dom_classes)


def test_a_form_begins_as_the_notebook_stands_and_with_what_is_preset(host):
    assert form(host).request.spec.model_dump(exclude_defaults=True) == {"pairs": 2, "duration_s": 2.0}
    asked = form(host, experiment="fct", pairs=7, driver="macvlan", repetitions=3).request
    assert (asked.spec.experiment, asked.spec.pairs, asked.spec.driver, asked.repetitions) == ("fct", 7, "macvlan", 3)


def test_a_preset_that_the_experiment_does_not_have_is_refused(host):
    with pytest.raises(BadInput, match="did you mean 'pairs'"):
        form(host, pair=3)
    with pytest.raises(UnknownName, match="there are: throughput"):
        form(host, experiment="nothing")


@pytest.mark.parametrize(
    ("experiment", "own"),
    [("fct", ["workload", "flow_bytes"]), ("pinning", ["pinning"]), ("udp", ["workload", "udp_share", "udp_rate_bps"])],
)
def test_the_parameters_that_an_experiment_is_about_come_first(host, experiment, own):
    found = form(host, experiment=experiment)
    first = ["backend", "driver", "pairs", "duration_s", *own, "repetitions", "fresh", "several"]
    assert [field.name for field in found._first.children] == first
    assert {field.name for field in found.further} == set(found.fields) - set(first)


def test_further_parameters_are_in_groups_by_what_they_are_about(host):
    """In those of Spec each has its place, so that a new one has, too."""
    found = form(host, experiment="interference")
    groups = {group.heading: [field.name for field in group.fields] for group in found._rest.children}
    assert {"hosts", "placement"} <= set(groups["Hosts, and what is between them"])
    assert sorted(name for names in groups.values() for name in names) == sorted(each.name for each in found.further)
    others = set(Spec.model_fields) - {"experiment"}
    assert {group_of(name) for name in others} < {*form_module._GROUPS.values(), form_module._OWN}
    assert group_of("interference_where") == group_of("interference_workers")
    assert group_of("my_own") == form_module._OWN


def test_an_experiment_is_chosen_by_what_it_asks(host):
    options = dict(form(host).experiment.input.options)
    assert options["Launch time: how long until a container answers?"] == "launch-time"


def test_the_experiment_decides_which_fields_there_are_and_what_was_set_by_hand_stays(host):
    found = form(host)
    assert "flow_bytes" not in found.fields
    found.fields["pairs"].value = "9"
    found.experiment.value = "fct"
    assert (found.fields["pairs"].value, found.fields["duration_s"].value) == ("9", "30")
    assert found.fields["flow_bytes"].value == "5 MB"
    assert found.read().spec.experiment == "fct"


def test_an_error_is_shown_at_the_field_that_it_is_of_until_it_is_mended(host):
    found = form(host)
    found.fields["pairs"].value = "a <b>"
    found.read()
    assert found.request.spec is None
    assert "&#x27;a &lt;b&gt;&#x27; is not a number" in found.fields["pairs"]._note.value
    assert "pairlab-invalid" in classes(found.fields["pairs"])
    assert found.fields["duration_s"].error == ""
    found.fields["pairs"].value = "4"
    assert found.read().spec.pairs == 4
    assert "pairlab-error" not in found.fields["pairs"]._note.value
    assert "pairlab-invalid" not in classes(found.fields["pairs"])


def test_an_error_of_a_folded_field_unfolds_it(host):
    found = form(host)
    assert not found.more.value
    found.fields["duration_s"].value = "0.2"
    found.read()
    assert found.fields["interval_s"].error
    assert found.more.value


def test_a_driver_that_has_gone_is_noticed_when_looking_again_stays_listed_and_says_why(host):
    found = form(host, driver="ovs")
    host.lose("ovs")
    assert found.read().spec is not None
    assert found.refresh_and_read().spec is None
    assert found.fields["driver"].value == "ovs"
    assert ("ovs (not on this host)", "ovs") in found.fields["driver"].input.options
    assert found.fields["driver"].error == (
        "ovs is not on this host: ovs-vswitchd is not installed: sudo apt-get install openvswitch-switch"
    )


def test_a_backend_that_is_not_here_says_so_once(host):
    host.lose_backend("docker")
    found = form(host)
    found.fields["backend"].value = "docker"
    found.read()
    assert [name for name, field in found.fields.items() if field.error] == ["backend"]


def test_drivers_are_those_of_the_backend(host):
    host.lose("macvlan", backend="docker")
    found = form(host, driver="macvlan")
    assert found.request.spec
    found.fields["backend"].value = "docker"
    assert "macvlan is not on this host" in found.read().errors["driver"]


def test_the_backgrounds_tools_are_those_that_can_be_stopped_and_report(host):
    found = form(host, experiment="congestion", background_pairs=4, workload="rr")
    assert {name for _, name in found.fields["background_workload"].input.options} == {"flowgen", "iperf", "iperf3"}
    assert (found.request.spec.background_pairs, found.request.spec.background_workload) == (4, "flowgen")
    found.fields["background_pairs"].value = "0"
    found.fields["background_workload"].value = "iperf3"
    assert "there is no background: give background_pairs" in str(found.read().errors)


def test_every_field_has_its_class_and_a_label_with_its_unit(host):
    found = form(host)
    assert {"pairlab-field", "pairlab-field-duration-s"} <= classes(found.fields["duration_s"])
    assert found.fields["duration_s"].input.description == "Duration (s)"
    assert "measuring window" in html(found.fields["duration_s"])


def test_closed_sets_are_lists_and_names_of_files_are_suggested(host):
    found = form(host, experiment="multi-host")
    assert ("across", "across") in found.fields["placement"].input.options
    found = form(host, experiment="dc-simulation")
    assert "dctcp-web-search" in found.fields["flow_sizes"].input.options


def test_a_parameter_is_found_by_its_name_or_its_meaning(host):
    found = form(host)
    shown = lambda: {each.name for each in found.further if each.layout.display != "none"}  # noqa: E731
    assert found._rest.layout.display == "none"
    found.find.value = "other processes"
    assert (shown(), found._rest.layout.display) == ({"max_foreign_cpu"}, "")
    found.find.value = ""
    assert len(shown()) == len(found.further)
    assert found._rest.layout.display == "none"


def test_changed_values_are_marked_until_they_are_reset(host):
    found = form(host, pairs=7)
    assert "pairlab-changed" in classes(found.fields["pairs"])
    assert "pairlab-changed" not in classes(found.fields["driver"])
    found.fields["driver"].value = "macvlan"
    assert "pairlab-changed" in classes(found.fields["driver"])
    found.reset()
    assert found.read().spec == form(host).request.spec
    assert not any("pairlab-changed" in classes(field) for field in found.fields.values())
