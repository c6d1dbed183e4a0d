from dataclasses import replace

import pandas as pd
import pytest

from pairlab.analysis.output import latex
from pairlab.analysis.output.formatting import MISSING
from pairlab.analysis.output.measures import Quantity
from pairlab.errors import BadInput
from pairlab.statistics import intervals


def test_every_special_character_is_escaped():
    assert latex.escape(r"50% & $5 #1 a_b {x} ~ ^ \ ") == (
        r"50\% \& \$5 \#1 a\_b \{x\} \textasciitilde{} \textasciicircum{} \textbackslash{}"
    )
    assert latex.escape("two\nlines") == "two lines"


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("\u2212\u0035 ≤ 3", r"\textminus{}5 \ensuremath{\leq} 3"),
        ("μs µs", "µs µs"),
        ("αΑΩ", r"\ensuremath{\alpha}A\ensuremath{\Omega}"),
        ("Łódź, ǖ", r"\L{}\'{o}d\'{z}, \={\"{u}}"),
        ("m² ﬁ ½", r"m\textsuperscript{2} fi 1/2"),
        ("中\x07\udc80 x\u0302", "[U+4E2D][U+0007][U+DC80] x[U+0302]"),
        ("--flows ''x,,", "-{}-flows '{}'x,{},"),
        ("a\u200bb\u00a0c", "ab c"),
    ],
)
def test_a_character_is_set_by_a_command_by_its_parts_or_by_its_code_point(text, escaped):
    assert latex.escape(text) == escaped


def test_a_row_begins_with_no_option_of_the_line_before_and_only_ascii_digits_are_numbers(origin, out):
    table = pd.DataFrame({"bounds": ["[1.2, 3.4]", "*", "中"], "n": ["١٢", "1", "2"]})
    text = latex.write_table(table, "small", origin).read_text()
    for row in (r"{}[1.2, 3.4] & [U+0661][U+0662] \\", r"{}* & 1 \\", r"{}[U+4E2D] & 2 \\"):
        assert row in text.splitlines()
    assert "table-format" not in text


def test_values_are_written_in_the_order_of_their_keys_with_their_origin(origin, out):
    values = latex.Values("throughput")
    values.number("ovs/total", 71.469, 2, "Gbit/s")
    values.text("host/cpu-model", "Model & Maker 100% #1")
    values.names("systems", ["netns-flowgen", "docker-iperf"])
    path = values.write("01-throughput", origin)
    assert path == out / "paper" / "values" / "made-up" / "01-throughput.tex"
    assert path.read_text().splitlines() == [
        "% values of 01-throughput: made from 12 runs of runs/made-up, measured 2024-05-01 to 2024-05-02,"
        " keys 0123456789abcdef.",
        "% Generated: change the notebook, not this file.",
        r"\defineresult{throughput/host/cpu-model}{Model \& Maker 100\% \#1}",
        r"\defineresult{throughput/ovs/total}{71.47\,Gbit/s}",
        r"\definelist{throughput/systems}{netns-flowgen,docker-iperf}",
    ]


def test_a_key_has_one_value():
    values = latex.Values("throughput")
    values.number("n", 3, 0)
    values.number("n", 3, 0)
    with pytest.raises(BadInput, match=r"'throughput/n' has two values, '3' and '4'"):
        values.number("n", 4, 0)


@pytest.mark.parametrize("key", ["Total", "a b", "a//b", "a{b}", ""])
def test_a_key_that_latex_could_not_name_is_refused(key):
    with pytest.raises(BadInput, match="no key"):
        latex.Values("throughput").number(key, 1, 0)


def test_a_table_aligns_numbers_and_escapes_text(origin, out):
    table = pd.DataFrame(
        {"driver": ["my_driver", "ovs"], "total": ["9.50 ± 0.25", "10.10"], "n": [3, 12], "odd": ["1.0", "1 %"]}
    )
    text = latex.write_table(table, "small", origin).read_text()
    assert text.startswith("% table small: made from 12 runs of runs/made-up")
    assert r"\begin{tabular}{lS[table-format=2.2(2)]S[table-format=2]l}" in text
    assert r"my\_driver & 9.50 +- 0.25 & 3 & 1.0 \\" in text
    assert r"ovs & 10.10 & 12 & 1 \% \\" in text
    assert text.index(r"\toprule") < text.index(r"\midrule") < text.index(r"\bottomrule")


def test_below_a_table_stand_the_conditions_of_its_runs_no_wider_than_the_table(origin, out):
    table = pd.DataFrame({"n": [3]})
    bare = latex.write_table(table, "small", origin).read_text()
    noted = latex.write_table(table, "small", replace(origin, conditions="TCP cubic, 10 s each & more")).read_text()
    tabular = bare[bare.index(r"\begin{tabular}") :].rstrip()
    assert noted.startswith(bare[: bare.index(r"\begin{tabular}")] + "\\sbox0{%\n" + tabular)
    assert noted.endswith(
        r"\parbox[t]{\wd0}{\raggedright\scriptsize\rule{0pt}{9pt}TCP cubic, 10 s each \& more}\end{tabular}" + "\n"
    )


def test_a_column_of_sentences_breaks_into_lines(origin, out):
    table = pd.DataFrame({"why": ["a & b", "3"], "n": ["1", "2"]})
    text = latex.write_table(table, "long", origin, wrapped={"why": 0.25}).read_text()
    assert r"{>{\raggedright\arraybackslash}p{0.250\textwidth}S[table-format=1]}" in text
    assert r"a \& b & 1 \\" in text
    assert r"3 & 2 \\" in text


def test_numbers_below_zero_have_a_minus_and_names_keep_their_hyphens():
    assert latex.escape("-1.5 [-3, 2] netns-2") == r"\textminus{}1.5 [\textminus{}3, 2] netns-2"
    assert latex.escape("2026-11-24, n = 3-5") == "2026-11-24, n = 3-5"


def test_a_table_of_two_levels_groups_its_head_and_shows_what_is_missing(origin, out):
    columns = pd.MultiIndex.from_product([["Total"], ["bridge", "ovs"]])
    table = pd.DataFrame([["1.00", MISSING]], index=pd.Index([5], name="Pairs"), columns=columns)
    text = latex.write_table(table, "wide", origin).read_text()
    assert r"{Pairs} & \multicolumn{2}{c}{Total} \\" in text
    assert r"\cmidrule(lr){2-3}" in text
    assert "5 & 1.00 & " in text


def test_a_bound_that_rounds_to_nothing_has_no_sign():
    values = latex.Values("cpu")
    share = Quantity("Share (%)", "share", 1, 100, "%")
    share.put_one(values, "idle", intervals.Estimate(1e-5, -1e-5, 3e-5, 3))
    share.put_one(values, "steal", intervals.Estimate(0.001, -0.002, 0.004, 3))
    assert values["idle-interval"] == r"[0.0, 0.0] \%"
    assert values["steal-interval"] == r"[\textminus{}0.2, 0.4] \%"
