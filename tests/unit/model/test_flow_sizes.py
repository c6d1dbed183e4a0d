"""Flow size distributions: files of other generators, what is refused, and samples held against the CDF."""

import numpy as np
import pytest

from pairlab.errors import BadInput, UnknownName
from pairlab.model import flow_sizes
from tests.support.flow_sizes import ks_p

FLOWS = 250_000


@pytest.fixture
def file(tmp_path):
    def file(text):
        (tmp_path / "cdf").write_text(text, encoding="utf-8", newline="")
        return tmp_path / "cdf"

    return file


@pytest.mark.parametrize("name", flow_sizes.names())
def test_a_shipped_distributions_mean_by_integration_is_that_of_its_samples_and_samples_pass_a_ks_test(name):
    sizes = flow_sizes.load(name)
    drawn = sizes.sample(FLOWS, seed=1)
    assert abs(drawn.mean() - sizes.mean_bytes) <= 4 * drawn.std() / np.sqrt(FLOWS)
    assert ks_p(drawn, sizes) > 0.001
    assert drawn.min() >= 1
    assert sizes.source
    assert sizes.joined


@pytest.mark.parametrize(("drawn", "of"), [("uniform", "fixed"), ("vl2", "prv2-1"), ("facebook", "vl2")])
def test_samples_of_another_distribution_fail_the_ks_test(drawn, of):
    assert ks_p(flow_sizes.load(drawn).sample(FLOWS), flow_sizes.load(of)) < 1e-6


def test_a_share_that_is_off_by_one_percent_fails_the_ks_test(file):
    wrong = flow_sizes.read(file("0 0\n100 0.21\n450 0.4\n900 0.5\n2200000 1\n"))
    right = flow_sizes.read(file("0 0\n100 0.20\n450 0.4\n900 0.5\n2200000 1\n"))
    assert ks_p(right.sample(FLOWS), right) > 0.001
    assert ks_p(wrong.sample(FLOWS), right) < 1e-6


def test_means_are_those_that_others_state_for_these_points():
    # ns-2 simulations of both workloads state 1,711,250 and 12,658,199 bytes; whole bytes add half a byte.
    assert flow_sizes.load("dctcp-web-search").mean_bytes == pytest.approx(1_711_250, abs=1)
    assert flow_sizes.load("vl2").mean_bytes == pytest.approx(12_658_199, rel=1e-3)


def test_prv2_1_has_the_shares_that_paper_m_states():
    sizes = flow_sizes.load("prv2-1")
    stated = {100: 0.2, 450: 0.4, 900: 0.5, 1400: 0.6, 2200: 0.7, 4500: 0.8, 20e3: 0.9, 100e3: 0.95, 1.5e6: 0.99}
    assert sizes.cdf(list(stated)) == pytest.approx(list(stated.values()))
    assert sizes.quantile(1) == 2_200_000


def test_a_mean_is_of_whole_bytes_also_where_sizes_are_small(file):
    sizes = flow_sizes.read(file("0 0\n4 1\n"))  # 1, 2, 3 or 4, each as likely
    assert sizes.mean_bytes == 2.5
    assert set(sizes.sample(1000)) == {1, 2, 3, 4}
    assert sizes.cdf([0, 1, 1.9, 2, 4, 5]) == pytest.approx([0, 0.25, 0.25, 0.5, 1, 1])


def test_steps_are_sizes_that_many_flows_have(file):
    sizes = flow_sizes.read(file("10 0.5\n20 0.5\n20 0.75\n40 1\n"))
    assert list(sizes.quantile([0.01, 0.5, 0.6, 0.75, 0.875, 1])) == [10, 10, 20, 20, 30, 40]
    assert sizes.cdf([9, 10, 19, 20, 30]) == pytest.approx([0, 0.5, 0.5, 0.75, 0.875])
    assert sizes.mean_bytes == pytest.approx(0.5 * 10 + 0.25 * 20 + 0.25 * 30.5)
    assert ks_p(sizes.sample(FLOWS), sizes) > 0.001


def test_the_share_of_bytes_in_the_largest_flows_is_that_of_the_samples():
    for name in ("prv2-1", "uniform", "fixed", "dctcp-web-search"):
        sizes = flow_sizes.load(name)
        drawn = np.sort(sizes.sample(FLOWS))
        assert sizes.share_of_bytes(0.1) == pytest.approx(drawn[-FLOWS // 10 :].sum() / drawn.sum(), rel=0.02)
    assert flow_sizes.load("fixed").share_of_bytes(1) == 1


def test_three_columns_and_packets_are_read_as_ns2_has_them(file):
    of_packets = flow_sizes.read(file("1 1 0\n6 1 0.15\n13 1 0.2  # a comment\n\n19 1 1\n"), unit_bytes=1460)
    assert list(of_packets.sizes) == [1460, 8760, 18980, 27740]
    assert list(of_packets.shares) == [0, 0.15, 0.2, 1]


def test_numbers_are_read_as_empirical_traffic_generator_writes_them(file):
    assert list(flow_sizes.read(file("0     0\n3   0.28 \n1e+06 0.7\n3.16e+06\t1\n")).sizes) == [0, 3, 1e6, 3.16e6]


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff0 0\n10 0.5\n20 1\n",
        "0,0\r\n10, 0.5\r\n20,1\r\n",
        "0 0\n10 0.5\n20 0.99999999\n",
        "0 0\n10 .5\n20 1.0000001",
    ],
)
def test_a_byte_order_mark_commas_and_rounded_shares_are_read_too(file, text):
    sizes = flow_sizes.read(file(text))
    assert (list(sizes.sizes), list(sizes.shares)) == ([0, 10, 20], [0, 0.5, 1])


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("0 0\n10 0.5\n20 0.4\n30 1\n", 3, "the CDF falls from 0.5 to 0.4: give cumulative shares"),
        ("0 0\n10 0.5\n5 1\n", 3, "sizes fall from 10 to 5: sort the lines"),
        ("0 0\n-10 0.5\n20 1\n", 2, "the size -10 is negative"),
        ("0 -0.1\n20 1\n", 1, "the share -0.1 is negative"),
        ("0 0\n20 50\n30 100\n", 2, "the share 50 is above 1: divide shares in percent by 100"),
        ("0 0\n20\n", 2, "has 1 columns: give a size and a cumulative share"),
        ("1711250\n0 0\n20 1\n", 1, "has one number, as files that begin with the mean: remove the line"),
        (
            "size,cdf\n0,0\n20,1\n",
            1,
            "'size,cdf' are no numbers: give a size and a cumulative share, and begin a heading",
        ),
        ("0 0%\n20 100%\n", 1, "'0 0%' are no numbers: give a size and a cumulative share; divide shares in percent"),
        (
            "0 0\n1,000 1\n",
            2,
            "'1,000 1' are no numbers: give a size and a cumulative share; a comma separates columns",
        ),
        ("0,0\n1,000,1\n", 2, "has 3 columns: give a size and a cumulative share; a comma separates columns, not"),
        ("10 0.5\n20 0.3\n30 0.2\n", None, "the shares add up to 1, so each is of one size alone: give cumulative"),
        ("0 0\n10 0.50000001\n20 0.5\n30 1\n", 3, "the CDF falls from 0.50000001 to 0.5"),
        ("0 0\n1000001 0.5\n1000000 1\n", 3, "sizes fall from 1000001 to 1000000"),
        ("0 0\n20 0.99999\n", None, "the CDF ends at 0.99999, not at 1: add a last line"),
        ("0 0\n20 1 1 1\n", 2, "has 4 columns"),
        ("0 0\n\n# all\n2O 1\n", 4, "'2O 1' are no numbers"),
        ("0 0\nnan 1\n", 2, "must be finite"),
        ("0 0.1\n20 1\n", None, "flows of 0 bytes have a share above 0"),
        ("0 0\n1e16 1\n", None, "check the unit"),
        ("\n# nothing\n", None, "has no points"),
    ],
)
def test_what_is_no_cdf_is_refused_with_file_line_and_what_to_do(file, text, line, why):
    with pytest.raises(BadInput) as refused:
        flow_sizes.read(file(text))
    message = str(refused.value)
    assert why in message
    assert (f"/cdf, line {line}: " if line else "/cdf") in message


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"cannot read the CDF .*nowhere: No such file"):
        flow_sizes.load(tmp_path / "nowhere")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\0")
    with pytest.raises(BadInput, match="it is no text"):
        flow_sizes.load(tmp_path / "binary")
    with pytest.raises(UnknownName, match="did you mean 'vl2'"):
        flow_sizes.load("vl1")
    with pytest.raises(ValueError, match="above 0 and up to 1"):
        flow_sizes.load("vl2").quantile(0)
