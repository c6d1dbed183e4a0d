"""What will be built, sent and stored, and how long that takes, before it begins."""

import dataclasses
import re

import pytest

from pairlab import store
from pairlab.errors import BadSpec
from pairlab.measurement.estimate import (
    FLOW_BYTES,
    OVERHEAD_S,
    RUN_BYTES,
    START_S,
    EarlierRuns,
    overhead_s,
    picture,
    preview,
)
from pairlab.model.spec import Spec
from tests.support.runs import made_up

TIMES = {"up_s": 1.0, "facts_s": 0.25, "ready_s": 0.5, "traffic_s": 2.0, "end_s": 0.25, "down_s": 0.5}
AROUND_S = 2.5


def keep(root, *, host="", times_s=TIMES, **spec):
    return store.write(dataclasses.replace(made_up(host=host, **spec), times_s=times_s), root)


def test_a_preview_says_what_is_built_sent_and_stored(tmp_path):
    spec = Spec(driver="bridge", pairs=50, duration_s=10.0, workload="flowgen")
    assert preview(spec, root=tmp_path) == (
        "50 client and 50 server namespaces on bridge: Linux bridge with a veth pair to each container."
        " flowgen sends TCP for 10 s at full rate, all released together."
        " About 12 s in all (a rule of thumb: the traffic, 2 s);"
        f" stored below {tmp_path}/throughput/, as {spec.key}."
    )


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ("rr", "rr sends requests by TCP for 2 s, and times the responses, all released together."),
        ("all-to-all", "all-to-all sends messages between all, by TCP for 2 s, and times the rounds"),
        ("stress-ng-cpu", "stress-ng-cpu computes for at most 2 s; no traffic is sent."),
    ],
)
def test_what_sends_otherwise_than_at_full_rate_is_told_so(workload, words, tmp_path):
    assert words in preview(Spec(pairs=2, duration_s=2.0, workload=workload), root=tmp_path)


def test_launches_take_no_time_of_traffic(tmp_path):
    spec = Spec(experiment="launch-time", workload="flowgen", launches=3, duration_s=60.0)
    assert "About 2 s in all" in preview(spec, root=tmp_path)


def test_who_shares_the_hosts_stack_has_no_namespace(tmp_path):
    words = preview(Spec(driver="host", pairs=2, workload="flowgen"), root=tmp_path)
    assert words.startswith("2 clients and 2 servers on host: one shared network stack")


def test_flows_with_an_end_have_their_size_and_their_time(tmp_path):
    spec = Spec(experiment="fct", workload="flowgen", pairs=3, flow_bytes=5_000_000, duration_s=30.0, backend="docker")
    words = preview(spec, root=tmp_path)
    assert "3 client and 3 server containers" in words
    assert "flowgen sends a flow of 5 MB from each client, which has 30 s to complete" in words
    assert "At most 34 s in all" in words


def test_particulars_are_told(tmp_path):
    spec = Spec(experiment="udp", pairs=2, workload="flowgen", udp_share=0.5, udp_rate_bps=1e9, duration_s=2.0)
    assert "TCP and UDP for 2 s" in preview(spec, root=tmp_path)
    assert "Also: 50 % UDP, at 1000 Mbit/s." in preview(spec, root=tmp_path)


def test_earlier_runs_with_about_as_many_pairs_tell_the_time(tmp_path):
    keep(tmp_path, pairs=10)
    keep(tmp_path, pairs=300, times_s=TIMES | {"up_s": 100.0})
    keep(tmp_path, pairs=10, driver="macvlan", times_s=TIMES | {"up_s": 100.0})
    keep(tmp_path, pairs=15, host="another machine", times_s=TIMES | {"up_s": 100.0})
    assert EarlierRuns(tmp_path).expected(Spec(pairs=15, duration_s=4.0)) == (START_S + AROUND_S + 4.0, 1, False)
    assert "About 8 s in all (estimated from 1 similar run)" in preview(Spec(pairs=15, duration_s=4.0), root=tmp_path)


def test_earlier_runs_of_its_workload_tell_more_than_others(tmp_path):
    keep(tmp_path, pairs=10, workload="sockperf", times_s=TIMES | {"up_s": 5.0})
    keep(tmp_path, pairs=10, workload="flowgen")
    earlier = EarlierRuns(tmp_path)
    flowgen, sockperf = (
        earlier.overhead(Spec(pairs=10, duration_s=4.0, workload=each)) for each in ("flowgen", "sockperf")
    )
    assert (flowgen.runs, sockperf.runs) == (1, 1)
    assert sockperf.seconds > flowgen.seconds
    assert earlier.overhead(Spec(pairs=10, duration_s=4.0, workload="iperf3")).runs == 2


def test_more_containers_than_in_earlier_runs_take_as_much_longer_as_by_the_rule_of_thumb(tmp_path):
    for pairs, up_s in ((1, 2.0), (10, 28.5), (10, 29.0), (10, 60.0)):
        keep(tmp_path, backend="docker", pairs=pairs, repetition=int(up_s), times_s={"up_s": up_s, "traffic_s": 2.0})
    spec = Spec(backend="docker", pairs=50, duration_s=4.0)
    assert overhead_s(spec) == OVERHEAD_S + 0.6 * 50
    tenfold = (overhead_s(spec) - START_S) / (OVERHEAD_S + 0.6 * 10 - START_S)
    assert EarlierRuns(tmp_path).cell(spec) == pytest.approx((START_S + 29.0 * tenfold + 4.0, 3, False))
    assert EarlierRuns(tmp_path).cell(spec.replace(pairs=1)) == pytest.approx((START_S + 2.0 + 4.0, 1, False))
    assert EarlierRuns(tmp_path).cell(spec.replace(driver="macvlan")) == (overhead_s(spec) + 4.0, 0, False)


def test_launches_take_what_others_took_and_no_traffic(tmp_path):
    spec = {"experiment": "launch-time", "backend": "docker", "workload": "flowgen", "launches": 3}
    assert EarlierRuns(tmp_path).cell(Spec(**spec)) == pytest.approx((OVERHEAD_S + 3 * 0.6, 0, False))
    keep(tmp_path, **spec, duration_s=10.0, times_s={"up_s": 1.0, "launches_s": 8.0, "down_s": 1.0})
    assert EarlierRuns(tmp_path).cell(Spec(**spec)) == pytest.approx((START_S + 10.0, 1, False))


def test_the_space_of_a_run_is_that_of_others_of_its_experiment_and_workload(tmp_path):
    spec = Spec(workload="flowgen", pairs=4)
    assert EarlierRuns(tmp_path).stored_bytes(spec) == (RUN_BYTES + 4 * FLOW_BYTES, 0)
    place = keep(tmp_path, workload="flowgen", pairs=4).path
    (place / "notebook.ipynb").write_bytes(b" " * 100_000)
    stored_bytes = sum(path.stat().st_size for path in place.iterdir())
    assert EarlierRuns(tmp_path).stored_bytes(spec.replace(driver="macvlan")) == (stored_bytes, 1)
    larger = stored_bytes * (RUN_BYTES + 40 * FLOW_BYTES) / (RUN_BYTES + 4 * FLOW_BYTES)
    assert EarlierRuns(tmp_path).stored_bytes(spec.replace(pairs=10, flows_per_pair=4)) == (pytest.approx(larger), 1)
    assert EarlierRuns(tmp_path).stored_bytes(spec.replace(workload="iperf"))[1] == 0


def test_repetitions_take_their_time_each(tmp_path):
    keep(tmp_path, pairs=10)
    words = preview(Spec(pairs=10, duration_s=4.0, workload="flowgen"), 10, tmp_path)
    assert "10 repetitions: about 1 min 20 s in all" in words


def test_flows_of_the_same_size_tell_how_long_they_last(tmp_path):
    keep(tmp_path, experiment="fct", workload="flowgen", flow_bytes=5_000_000, duration_s=30.0)
    found = EarlierRuns(tmp_path).expected(
        Spec(experiment="fct", workload="flowgen", flow_bytes=5_000_000, duration_s=20.0)
    )
    assert found == (START_S + AROUND_S + TIMES["traffic_s"], 1, False)


def test_a_run_that_is_stored_already_is_told(tmp_path):
    keep(tmp_path, workload="flowgen", pairs=4)
    assert "stored already as" in preview(Spec(workload="flowgen", pairs=4, duration_s=2.0), root=tmp_path)
    keep(tmp_path, workload="flowgen", pairs=5, status="invalid", reasons=("late",))
    assert "stored already" not in preview(Spec(workload="flowgen", pairs=5, duration_s=2.0), root=tmp_path)


def test_damaged_runs_tell_nothing(tmp_path):
    keep(tmp_path, pairs=10)
    next(tmp_path.glob("*/*/run.json")).write_text("{")
    assert EarlierRuns(tmp_path).expected(Spec(pairs=10, duration_s=4.0)).runs == 0


def test_what_cannot_be_is_refused(tmp_path):
    with pytest.raises(BadSpec, match="'bridge' can have at most 511"):
        preview(Spec(pairs=600), root=tmp_path)


def drawn(**spec):
    return re.findall(r"<text [^>]*>([^<]*)</text>", picture(Spec(workload="flowgen", **spec)))


def test_a_picture_shows_each_host_with_its_first_pair_and_how_many_more_there_are():
    words = drawn(driver="overlay", hosts=2, placement="across", pairs=3, uplink_rate_bps=1e9, warmup_s=1.0)
    assert [word for word in words if word.startswith("host-")] == ["host-0  10.76.0.1", "host-1  10.76.0.2"]
    assert [word for word in words if word.startswith(("client", "server", "+"))] == [
        *("client-0", "+ 2"),
        *("server-0", "+ 2"),
    ]
    assert words.count("network overlay") == 2
    assert words[-1] == "uplinks of MTU 1,500 B, 1 Gbit/s each, one kernel"


@pytest.mark.parametrize(
    ("spec", "ends"),
    [
        ({"driver": "macvlan"}, ["10.77.0.1", "10.77.0.2"]),
        ({"driver": "macvlan", "backend": "docker"}, ["by Docker", "by Docker"]),
        ({"driver": "ovs", "backend": "docker"}, ["10.77.0.1", "10.77.0.2"]),
        ({"driver": "container"}, ["loopback", "loopback"]),
        ({"driver": "host"}, ["process", "process"]),
    ],
)
def test_a_picture_says_where_endpoints_are_reached(spec, ends):
    words = drawn(pairs=1, **spec)
    assert [words[words.index(name) + 1] for name in ("client-0", "server-0")] == ends
