"""netperf: what is read of its client, and what it asks of its tool."""

from types import SimpleNamespace

import pytest

from pairlab.model.spec import Spec
from pairlab.testbed.endpoints import Task
from pairlab.testbed.workloads.netperf import Netperf
from tests.unit.testbed.workloads.helpers import captured, only


def test_netperf_reports_the_rate_and_its_own_quantiles_in_whole_microseconds():
    measured = only(Netperf().parse(captured("netperf-2.7.1-udp.txt")))
    transactions = round(82_404.801 * 1.01)
    assert measured.flow == {
        "duration_s": 1.01,
        "flow_bytes": transactions * 2,
        "throughput_bps": transactions * 16 / 1.01,
        "transactions": transactions,
        "transactions_lost": 0,
        "transactions_failed": 0,
        "client_p50_s": 4e-6,
        "client_p90_s": 5e-6,
        "client_p99_s": 9e-6,
        "client_max_s": pytest.approx(11.747e-3),
    }
    assert measured.latencies == ()


def test_a_connection_per_request_takes_longer():
    crr, rr = (only(Netperf().parse(captured(f"netperf-2.7.1-{name}.txt"))).flow for name in ("crr", "one"))
    assert crr["client_p50_s"] == 16e-6 > 2 * rr["client_p50_s"]


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        (
            "resolve_host: could not resolve host 'a' port '(null)' af AF_UNSPEC\n\tgetaddrinfo returned -3\n",
            "resolve_host",
        ),
        ("The test you requested (TCP_RR) is unknown to this netperf.\n", "The test you requested"),
        ("remote error 98\n", "remote error 98"),
    ],
)
def test_whatever_netperf_says_is_the_reason(printed, told):
    with pytest.raises(ValueError, match=f"^netperf: {told}"):
        Netperf().parse(printed)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (
            "P50_LATENCY=4",
            "P50_LATENCY=-1",
            r"printed 'P50_LATENCY=-1'; expected a number, 0 or more, after 'P50_LATENCY='",
        ),
        ("P50_LATENCY=4\n", "", r"the last line that it printed is 'RESPONSE_SIZE=1'; expected 'P50_LATENCY=NUMBER'"),
        (
            captured("netperf-2.7.1-one.txt"),
            "",
            r"no complete test: it printed nothing; expected 'ELAPSED_TIME=NUMBER'",
        ),
    ],
)
def test_a_report_of_netperf_that_lacks_a_value_is_refused_with_what_it_has_there(before, after, told):
    with pytest.raises(ValueError, match=rf"^netperf .*{told}"):
        Netperf().parse(captured("netperf-2.7.1-one.txt").replace(before, after))


@pytest.mark.parametrize(
    ("asked", "protocol", "test"),
    [({}, "tcp", "TCP_RR"), ({"connect_per_request": True}, "tcp", "TCP_CRR"), ({}, "udp", "UDP_RR")],
)
def test_the_spec_chooses_the_test(asked, protocol, test):
    pair = SimpleNamespace(target="10.0.0.1", port=5201, task=Task(protocol=protocol))
    argv = Netperf().client(pair, Spec(duration_s=3.0, request_bytes=100, **asked), None)
    assert argv[argv.index("-t") + 1] == test
    assert argv[argv.index("-l") + 1] == "3"
    assert argv[argv.index("-r") + 1] == "100,1"
