"""`pairlab cdf`."""

import io
import json
import os
import shlex
import subprocess
import sys

import pytest

from pairlab import cli


def test_a_distribution_is_drawn_as_text_with_its_summary_and_source(pairlab):
    status, out, _ = pairlab("cdf", "prv2-1")
    assert status == 0
    bars = {line.split()[0]: line.count("█") for line in out.splitlines() if "█" in line}
    assert bars["1.00"] == 60 > bars["0.99"] > bars["0.90"] > bars["0.50"] > bars["0.10"] == 1
    assert "mean 55.5 kB, median 900 B, p99 1.5 MB, largest 2.2 MB; the largest 10 % of flows carry 96.4 %" in out
    assert "source: Mentz et al. 2020" in out


def test_a_terminal_without_blocks_gets_question_marks_for_them(monkeypatch):
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, "iso-8859-1"))
    with pytest.raises(SystemExit) as ended:
        cli.main(["cdf", "prv2-1"], prog_name="pairlab")
    sys.stdout.flush()
    assert ended.value.code == 0
    bars = {line.split()[0]: line.count(b"?") for line in printed.getvalue().splitlines() if b"?" in line}
    assert bars[b"1.00"] == 60 > bars[b"0.50"]


def test_a_file_is_drawn_as_a_figure(pairlab, tmp_path):
    (tmp_path / "mine_1").write_text("1 1 0\n10 1 0.5\n100 1 1\n")
    for ending, begins in (("pdf", b"%PDF"), ("png", b"\x89PNG"), ("svg", b"<svg")):
        figure = tmp_path / f"mine.{ending}"
        status, out, _ = pairlab("cdf", str(tmp_path / "mine_1"), "--unit", "1460", "--figure", str(figure))
        assert status == 0
        assert figure.read_bytes().startswith(begins)
        assert f"figure: {figure}" in out
        assert "p99 143 kB, largest 146 kB" in out


def test_of_a_configuration_it_is_the_one_that_is_named_there_with_the_command_that_measures_it(pairlab, tmp_path):
    (tmp_path / "mine").write_text("1000 0.5\n1000000 1\n")
    servers = "".join(f"server 10.0.0.{number} 5000\n" for number in range(1, 5))
    config = tmp_path / "config"
    config.write_text(f"{servers}req_size_dist mine\nfanout 1 80\nfanout 2 20\nload 100Mbps\nnum_reqs 50\n")
    status, out, _ = pairlab("cdf", str(config))
    assert status == 0
    assert "largest 1 MB" in out
    command = shlex.split(out.partition("to measure it: ")[2])
    assert command[:3] == ["pairlab", "run", "dc-simulation"]
    asked = dict(word.split("=", 1) for word in command[4::2])
    assert asked["offered_load_bps"] == "100000000.0"
    assert (asked["requests"], asked["fan_out"], asked["pairs"]) == ("50", "1=80 2=20", "4")
    assert json.loads(pairlab("cdf", str(config), "--json")[1])["parameters"]["fan_out"] == "1=80 2=20"
    assert "offered_load_bps=900e6" not in out
    config.write_text(f"{servers}req_size_dist mine\n")
    out = pairlab("cdf", str(config))[1]
    assert "offered_load_bps" not in out.partition("to measure it: ")[2].splitlines()[0]
    assert (
        out.splitlines()[-1] == "its client's -b 900 is: -p offered_load_bps=900e6, and its -n 5000: -p requests=5000"
    )
    config.write_text("server 10.0.0.1 5000\n")
    assert "has no req_size_dist" in pairlab("cdf", str(config))[2]


def test_json_has_the_points_and_base_units(pairlab):
    found = json.loads(pairlab("cdf", "fixed", "--json")[1])
    assert found["points"] == [[100_000, 0], [100_000, 1]]
    assert found["mean_bytes"] == found["median_bytes"] == found["p99_bytes"] == 100_000
    assert found["share_of_bytes_in_largest_tenth"] == pytest.approx(0.1)


def test_what_is_no_distribution_or_no_figure_is_refused_in_one_line(refused, tmp_path):
    (tmp_path / "falls").write_text("0 0\n10 0.5\n20 0.4\n")
    for words, why in (
        (["vl1"], "no flow size distribution or file 'vl1'; did you mean 'vl2'?"),
        ([str(tmp_path / "falls")], "falls, line 3: the CDF falls from 0.5 to 0.4"),
        (["vl2", "--figure", "vl2.gif"], "a figure is a .pdf, .png or .svg, not 'vl2.gif'"),
        (["vl2", "--unit", "1460"], "'vl2' is shipped in bytes"),
    ):
        status, said = refused("cdf", *words)
        assert (status, why in said) == (2, True), said


@pytest.mark.whole
def test_a_figure_needs_no_backend_that_the_environment_names(tmp_path):
    figure = tmp_path / "fixed.svg"
    command = [sys.executable, "-m", "pairlab", "cdf", "fixed", "--figure", figure]
    environment = os.environ | {"MPLBACKEND": "of-another-program"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert figure.read_text().startswith("<svg")
