from dataclasses import replace

import pytest

from pairlab import store
from pairlab.analysis import selection
from pairlab.analysis.output import provenance
from pairlab.errors import MixedHosts
from pairlab.model.environment import Environment
from pairlab.store.dataset import load_runs
from tests.support.runs import made_up
from tests.support.synthetic import run

HERE = Environment(host="A CPU, 2 CPUs", machine="0123456789ab", kernel="6.1")


@pytest.mark.parametrize(
    ("name", "other"), [("kernel", HERE._replace(kernel="6.18")), ("host", HERE._replace(host="Another CPU, 2 CPUs"))]
)
def test_runs_of_two_kernels_or_hosts_are_not_pooled_unless_these_are_told_apart(name, other, tmp_path):
    for repetition, environment in enumerate((HERE, other)):
        store.write(made_up(environment=environment, repetition=repetition), tmp_path)
    runs = load_runs(tmp_path, environment="all")
    with pytest.raises(
        MixedHosts, match=rf'^the runs come from 2 {name}s \(.*environment="newest", or tell them apart by '
    ):
        selection.check_comparable(runs)
    selection.check_comparable(runs, [name])
    selection.check_comparable(load_runs(tmp_path))  # of the newest environment alone


def test_backends_may_have_been_measured_on_kernels_of_their_own(tmp_path):
    for backend, kernel in (("netns", "6.1"), ("docker", "6.18")):
        store.write(made_up(environment=HERE._replace(kernel=kernel), backend=backend), tmp_path)
    selection.check_comparable(load_runs(tmp_path))


def test_plain_runs_are_those_of_the_default_or_else_of_the_papers_congestion_control(tmp_path):
    for repetition, control in enumerate(("cubic", "reno", "cubic")):
        store.write(run([1], repetition=repetition, congestion_control=control), tmp_path)
    found, gap = selection.select(str(tmp_path), experiment="throughput", which=selection.as_in_papers)
    assert ({each.spec.repetition for each in found}, gap) == ({0, 2}, "")
    store.write(run([1], repetition=3), tmp_path)
    found, _ = selection.select(str(tmp_path), experiment="throughput", which=selection.as_in_papers)
    assert [each.spec.repetition for each in found] == [3]


def test_where_all_runs_ask_alike_for_what_the_papers_did_not_that_is_plain_and_is_said(tmp_path):
    for repetition in range(2):
        store.write(run([1], repetition=repetition, mtu_bytes=9000), tmp_path)
    found, gap = selection.select(str(tmp_path), experiment="throughput", which=selection.as_in_papers)
    assert (len(found), gap) == (2, "")
    assert selection.beyond_alike([each.spec for each in found]) == {"mtu_bytes": 9000}
    assert provenance.conditions(found).startswith("mtu 9 kB, ")
    store.write(run([1], repetition=2), tmp_path)
    found, _ = selection.select(str(tmp_path), experiment="throughput", which=selection.as_in_papers)
    assert [each.spec.mtu_bytes for each in found] == [0]
    assert not selection.beyond_alike([each.spec for each in load_runs(tmp_path)])


def test_runs_of_several_hosts_are_not_among_those_of_the_papers_on_one(tmp_path):
    store.write(run([1]), tmp_path)
    store.write(run([1], hosts=2), tmp_path)
    found, _ = selection.select(str(tmp_path), experiment="throughput", which=selection.as_in_papers)
    assert [each.spec.hosts for each in found] == [1]


@pytest.mark.parametrize(
    ("asked", "facts", "in_force"),
    [
        ("", {"congestion_control": {"in_force": "reno", "by": "default"}}, "reno"),
        ("cubic", {"network": {"tcp_congestion_control": "bbr"}}, "cubic"),
        ("", {"network": {"tcp_congestion_control": "bbr"}}, "bbr"),
        ("", {}, ""),
    ],
)
def test_the_congestion_control_in_force_is_the_one_seen_else_asked_for_else_the_default(asked, facts, in_force):
    made = replace(run([1], congestion_control=asked), facts=facts)
    assert made.congestion_control == selection.in_force(made)["congestion control"] == in_force
