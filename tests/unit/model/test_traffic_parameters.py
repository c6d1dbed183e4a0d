"""What a spec asks of traffic: flow sizes that depend on no file, and fan-outs."""

import hashlib

import pytest

from pairlab.errors import BadSpec
from pairlab.model import etg_config, flow_sizes, traffic_parameters
from pairlab.model.spec import Spec


def test_a_files_points_are_in_the_spec_which_then_needs_no_file(tmp_path):
    file = tmp_path / "CDF"
    file.write_text("1 0.1\n1000 3 0.5\n20000.5 1\n")
    spec = Spec(workload="traffic", flow_sizes=str(file))
    file.unlink()
    assert spec.flow_sizes == "1:0.1,1000:0.5,20000.5:1"
    assert spec == spec.replace(repetition=0) == Spec.stored(spec.model_dump())
    assert flow_sizes.load(spec.flow_sizes).quantile(0.5) == 1000
    assert "flow sizes a CDF of 3 points" in str(spec)


def test_files_of_the_same_points_are_the_same_spec_and_others_are_not(tmp_path):
    one, other, third = (tmp_path / name for name in "abc")
    one.write_text("1 0.5\n10 1\n")
    other.write_text("# sizes\n1.0 0.50\n\n10 1.0\n")
    third.write_text("1 0.5\n11 1\n")
    keys = [Spec(workload="traffic", flow_sizes=str(file)).key for file in (one, other, third)]
    assert keys[0] == keys[1] != keys[2]


def test_a_stored_spec_reads_no_file(tmp_path):
    file = tmp_path / "CDF"
    file.write_text("1 1\n")
    with pytest.raises(BadSpec, match="flow_sizes: is neither the name of a distribution nor its points"):
        Spec.stored({"workload": "traffic", "flow_sizes": str(file)})
    assert Spec.stored({"workload": "traffic", "flow_sizes": "of-later"}).flow_sizes == "of-later"


def test_a_replaced_file_is_read(tmp_path):
    (tmp_path / "CDF").write_text("1 1\n")
    assert Spec(workload="traffic", flow_sizes="prv2-1").replace(flow_sizes=f"{tmp_path}/CDF").flow_sizes == "1:1"


@pytest.mark.parametrize("text", ["1:0.5", "10:1,1:1", "1:2", "0:1", "1:0.5,2:0.4,3:1"])
def test_points_that_are_no_cdf_are_refused(text):
    with pytest.raises(BadSpec, match=r"flow_sizes: .*the CDF"):
        Spec(workload="traffic", flow_sizes=text)


def test_a_distribution_of_very_many_points_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "CDF").write_text("".join(f"{n} {n / 2000}\n" for n in range(1, 2001)))
    with pytest.raises(BadSpec, match="has 2,000 points, more than 1,000: straight lines join them, so leave out"):
        Spec(workload="traffic", flow_sizes=f"{tmp_path}/CDF")


@pytest.mark.parametrize(("text", "weights"), [("1", {1: 1}), ("4", {4: 1}), ("1=80 4=20", {1: 80, 4: 20})])
def test_fan_outs_have_weights(text, weights):
    assert traffic_parameters.fan_outs(text) == weights
    assert Spec(workload="traffic", flow_sizes="fixed", pairs=4, fan_out=text).fan_out == text


@pytest.mark.parametrize("text", ["0", "", "1,2", "1=", "=1", "1=80  4=20", "4=20 1=80 "])
def test_what_is_no_fan_out_is_refused(text):
    with pytest.raises(BadSpec, match="fan_out: "):
        Spec(workload="traffic", flow_sizes="fixed", pairs=4, fan_out=text)


def test_what_is_of_traffic_alone_needs_flow_sizes():
    for name, value in {"offered_load_bps": 1e6, "requests": 1, "fan_out": "2=1", "arrivals": "fixed"}.items():
        with pytest.raises(BadSpec, match=f"{name}: is of flows from a distribution: give flow_sizes"):
            Spec(**{name: value})


def test_requests_fall_behind_a_load_and_are_all_made():
    asked = {"workload": "traffic", "flow_sizes": "fixed", "may_fall_behind": True}
    with pytest.raises(BadSpec, match="may_fall_behind: needs offered_load_bps, behind which they fall: give it"):
        Spec(**asked, requests=10)
    with pytest.raises(BadSpec, match="may_fall_behind: needs requests, all of which are made: give it"):
        Spec(**asked, offered_load_bps=1e8)
    plain = Spec(**{**asked, "may_fall_behind": False}, offered_load_bps=1e8, requests=10)
    assert "may_fall_behind" not in plain.model_dump(exclude_defaults=True)
    assert "which may fall behind" in Spec(**asked, offered_load_bps=1e8, requests=10).particulars


def test_a_configuration_of_empirical_traffic_generator_is_a_spec(tmp_path):
    (tmp_path / "CDF").write_text("1000 0.5\n1000000 1\n")
    servers = "".join(f"server 10.0.0.{n} 5000\n" for n in range(1, 5))
    config = f"{servers}req_size_dist CDF\nfanout 1 80\nfanout 4 20\nload 100Mbps\nnum_reqs 50\n"
    (tmp_path / "config").write_text(config)
    spec = Spec(**etg_config.read(tmp_path / "config").parameters, duration_s=30.0)
    assert (spec.flow_sizes, spec.fan_out, spec.pairs) == ("1000:0.5,1000000:1", "1=80 4=20", 4)
    assert (spec.offered_load_bps, spec.requests) == (1e8, 50)


def test_what_has_written_points_is_read_as_the_same_distribution(tmp_path):
    sizes = flow_sizes.load("facebook")
    flow_sizes.write(sizes, tmp_path / "CDF")
    again = flow_sizes.read(tmp_path / "CDF")
    assert (again.sizes == sizes.sizes).all()
    assert (again.shares == sizes.shares).all()
    assert (flow_sizes.load(flow_sizes.as_points(sizes)).shares == sizes.shares).all()


def test_a_name_means_the_same_points_for_ever_as_the_keys_of_runs_have_the_name_alone():
    points = {name: flow_sizes.as_points(flow_sizes.load(name)) for name in flow_sizes.names()}
    assert {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in points.items()} == {
        "dctcp-web-search": "6b67af54edc219e5",
        "facebook": "49431fb888fb77b2",
        "fixed": "247e17b867b2f5b6",
        "prv2-1": "5151048d1948a68f",
        "uniform": "af9ad4ff914ad56b",
        "vl2": "9daaa9e9451ab9d7",
    }
