"""Empirical Traffic Generator's client configuration."""

from pathlib import Path

import pytest

from pairlab.errors import BadInput
from pairlab.model import etg_config

WHOLE = """server localhost 5000
server 10.0.0.1 5001
req_size_dist DCTCP_CDF
fanout 1 50
fanout 2 20

load 8000Mbps
num_reqs 5000
"""


def read(tmp_path, text):
    (tmp_path / "config").write_text(text, encoding="utf-8")
    return etg_config.read(tmp_path / "config")


def test_a_configuration_is_read_as_it_is(tmp_path):
    config = read(tmp_path, WHOLE)
    assert config.servers == (("localhost", 5000), ("10.0.0.1", 5001))
    assert config.fan_outs == ((1, 50), (2, 20))
    assert (config.load_bps, config.requests) == (8e9, 5000)
    assert config.size_cdf == Path("DCTCP_CDF")
    (tmp_path / "DCTCP_CDF").write_text("0 0\n1 1\n")
    assert read(tmp_path, WHOLE).size_cdf == tmp_path / "DCTCP_CDF"


#: As HKUST's TrafficGenerator has them.
HKUST = """server 192.168.101.1 5001 1
server 192.168.102.1 5001 2
req_size_dist conf/DCTCP_CDF.txt
rate 0Mbps 10
dscp 0 25
dscp 1 0
"""


def test_a_configuration_of_hkusts_generator_leaves_load_and_requests_to_the_command_line(tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "DCTCP_CDF.txt").write_text("0 0\n1 1\n")
    config = read(tmp_path / "conf", "\ufeff" + HKUST)
    assert etg_config.is_one(tmp_path / "conf" / "config")
    assert config.servers == (("192.168.101.1", 5001), ("192.168.102.1", 5001))
    assert config.fan_outs == ((1, 1),)
    assert config.size_cdf == tmp_path / "conf" / "DCTCP_CDF.txt"  # named from the folder above
    assert config.parameters.keys() == {"workload", "flow_sizes", "fan_out", "pairs"}
    assert read(tmp_path, HKUST + "fanout 1 10\nfanout 2 30\n").fan_outs == ((1, 10), (2, 30))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("rate 500Mbps 30", "line 7: 'rate 500Mbps 30' limits the rate of flows, which pairlab does not: leave out"),
        (
            "dscp 1 25",
            "line 7: 'dscp 1 25' marks packets with a DSCP, which pairlab does not: leave out the lines of dscp",
        ),
        ("dscp 64 1", "line 7: 'dscp 64 1' does not give a DSCP and a weight"),
        ("rate 1Gbps 1", "line 7: 'rate 1Gbps 1' does not give a sending rate in Mbit/s and a weight"),
        ("server 10.0.0.1 5001 x", "line 7: 'server 10.0.0.1 5001 x' does not give an address and a port"),
        ("load 900Mbps", "has no num_reqs"),
    ],
)
def test_what_hkusts_generator_does_and_pairlab_does_not_is_refused(tmp_path, line, why):
    with pytest.raises(BadInput) as refused:
        read(tmp_path, f"{HKUST}{line}\n")
    assert why in str(refused.value)


@pytest.mark.parametrize(("load", "load_bps"), [("0", 0), ("1000", 1e9), ("0.5Mbps", 0.5e6)])
def test_a_load_is_in_mbit_per_s_and_0_is_a_closed_loop(tmp_path, load, load_bps):
    assert read(tmp_path, WHOLE.replace("8000Mbps", load)).load_bps == load_bps


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (
            "num_reqs",
            "num_req",
            "line 8: no key 'num_req'; there are: server, req_size_dist, fanout, load, num_reqs, dscp",
        ),
        ("num_reqs 5000\n", "", "has no num_reqs: add a number of requests"),
        ("num_reqs 5000", "num_reqs 0", "line 8: 'num_reqs 0' does not give a number of requests"),
        ("num_reqs 5000", "num_reqs 5e3", "line 8: 'num_reqs 5e3' does not give"),
        ("fanout 2 20", "fanout 3 20", "fanout 3 needs 3 servers, and there are 2: add servers, or lower it"),
        ("fanout 2 20", "fanout 0 20", "line 5: 'fanout 0 20' does not give a number of servers and a weight"),
        ("fanout 1 50\nfanout 2 20", "fanout 1 0", "all weights of fanout are 0"),
        ("8000Mbps", "8Gbps", "line 7: 'load 8Gbps' does not give a load in Mbit/s"),
        ("8000Mbps", "-1", "line 7: 'load -1' does not give a load"),
        ("load", "load 1\nload", "line 8: load is given twice: leave one out"),
        ("localhost 5000", "localhost", "line 1: 'server localhost' does not give an address and a port"),
        ("localhost 5000", "localhost 70000", "line 1: 'server localhost 70000' does not give"),
    ],
)
def test_what_is_no_configuration_is_refused_with_line_and_what_to_do(tmp_path, old, new, why):
    with pytest.raises(BadInput) as refused:
        read(tmp_path, WHOLE.replace(old, new, 1))
    assert why in str(refused.value)
    assert str(tmp_path / "config") in str(refused.value)


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(BadInput, match="nowhere: No such file"):
        etg_config.read(tmp_path / "nowhere")
