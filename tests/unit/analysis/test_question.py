"""A study's own question, declared here, over made-up runs: each kind of estimate and of table does what it says."""

from dataclasses import replace

import pytest

from pairlab import store
from pairlab.analysis import question
from pairlab.analysis.figures.estimates import by_number
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Quantity
from pairlab.analysis.question import Across, Change, Column, Differ, Frame, Made, Mean, Question, Table
from pairlab.analysis.questions.networks import by_network
from pairlab.analysis.sentences import changes, extremes
from pairlab.errors import AnalysisError, UnknownName
from tests.support.synthetic import run

#: By driver, and by pinning of twice the cores: what the pair gets in Gbit/s.
RATES = {"bridge": (10, 10), "ovs": (8, 12)}
TOTAL = Quantity("Total (Gbit/s)", "total", 1, 1e-9, "Gbit/s")
CHANGE = Quantity("Change (%)", "change", 0, unit="%", change=True)


def _first(rows):
    return rows[rows["cores"] == rows["cores"].min()]


def _least(part):
    return part["cores"].min() if part["driver"].iloc[0] == "ovs" else None


HUBS = Question(
    topic="hubs",
    experiment="hubs",
    by=["cores"],
    which=lambda spec: True,
    words={"core_text": (("cores",), "{} cores".format)},
    estimates={
        "total": Mean(TOTAL, "total_bps"),
        "few": Mean(TOTAL, "total_bps", _first, by=("backend", "workload", "driver", "pairs")),
        "change": Change(CHANGE, "total_bps", "driver", "bridge", p="p"),
        "by cores": Change(CHANGE, "total_bps", "cores", _least, each=("driver",)),
        "kept": Change(
            CHANGE, "total_bps", "core_text", "1 cores", by=("backend", "workload", "driver"), keep=("cores",)
        ),
        "differ": Differ("total_bps", by=("backend", "workload", "pairs", "cores"), p="differ-p"),
        "rows": Frame(lambda answer: answer["total"].reset_index(names="nth"), TOTAL, key=lambda row: f"n{row.nth}"),
    },
    tables={
        "hubs": Table(
            {"driver": "Driver", "pairs": "Pairs", "cores": "Cores"},
            ["total", "change", Column("n", "total", lambda row: str(row.n))],
            lambda answer: {"cores": [2, 1]},
            dull={"pairs": 1},
        ),
        "across": Table(
            {"driver": "Driver"}, [Across("total", "core_text", lambda answer: ["2 cores", "1 cores"])], split=False
        ),
        "made": Made(lambda answer: answer.table("hubs"), file=False),
    },
    figures={"nothing": lambda answer: None},
    keys={"total": ("system", "driver", "cores"), "change": ("driver", "cores"), "differ": ("system", "cores")},
    main=("total",),
    values=lambda answer, found: found.text("own", "1"),
    absent={"nothing": lambda answer: "there is no picture of a hub"},
    answer=[changes("change", "Total against bridge")],
)


def write(root, repetitions=3):
    for repetition in range(repetitions):
        for driver, rates in RATES.items():
            for cores, rate in enumerate(rates, 1):
                asked = {"experiment": "hubs", "driver": driver, "cores": cores, "repetition": repetition}
                store.write(run([rate * (1 + 0.1 * repetition) + 0.01 * cores * repetition], **asked), root)
    return root


@pytest.fixture(scope="module")
def answer(tmp_path_factory):
    return question.ask(HUBS, write(tmp_path_factory.mktemp("runs") / "hubs"))


def test_a_column_that_repetitions_do_not_have_is_named_and_where_to_ask_for_it(tmp_path):
    store.write(run((10,), experiment="hubs"), tmp_path)
    own = replace(HUBS, estimates={"p99": Mean(TOTAL, "latency_p99_s")}, tables={}, keys={})
    with pytest.raises(AnalysisError, match=r"no column 'latency_p99_s'.*quantities=\['latency_p99_s'\]"):
        question.ask(own, tmp_path)["p99"]


def test_a_mean_has_the_cells_of_the_question_or_its_own(answer):
    assert list(answer["total"]["value"].round(-8) / 1e9) == [11.0, 11.0, 8.8, 13.2]
    assert list(answer["few"]["driver"]) == ["bridge", "ovs"]
    assert (answer["few"]["n"] == 3).all()


def test_a_change_is_against_a_value_within_all_other_factors(answer):
    found = answer["change"].set_index(["driver", "cores"])["value"]
    assert found.to_dict() == pytest.approx({("ovs", 1): -20, ("ovs", 2): 20}, abs=0.1)
    assert (answer["change"]["low"] < answer["change"]["high"]).all()


def test_a_change_can_find_its_reference_for_each_part_and_leave_those_without_out(answer):
    (row,) = answer["by cores"].itertuples()
    assert (row.driver, row.cores) == ("ovs", 2)
    assert row.value == pytest.approx(50, abs=0.1)


def test_a_change_keeps_what_goes_with_its_factor(answer):
    assert set(answer["kept"]["core_text"]) == {"2 cores"}
    assert set(answer["kept"]["cores"]) == {2}


def test_a_test_is_made_for_each_group_and_its_p_has_a_key(answer):
    found = answer["differ"]
    assert list(found["cores"]) == [1, 2]
    assert found["p"].between(0.05, 0.25).all()
    assert (found[["n", "groups", "gap"]] == [6, 2, ""]).all(axis=None)
    assert answer.values["netns-flowgen/2/differ-p"]


def test_a_table_has_an_order_no_dull_column_and_a_part_for_each_system(answer):
    table = answer.table("hubs")
    assert list(table.index.names) == ["System", "Driver", "Cores"]
    assert [row[1:] for row in table.index] == [("bridge", 2), ("bridge", 1), ("ovs", 2), ("ovs", 1)]
    assert list(table["Change (%)"].str[:3]) == ["–", "–", "+20", "-20"]
    assert list(table["n"]) == ["3"] * 4


def test_a_factor_goes_across_in_its_order_and_words_name_it(answer):
    table = answer.table("across")
    assert list(table.columns) == ["2 cores", "1 cores"]
    assert table.loc[("netns-flowgen", "ovs"), "2 cores"].startswith("13.2")


def test_numbers_have_keys_and_a_frames_rows_have_their_own(answer):
    assert answer.values["netns-flowgen/ovs/2/total"] == r"13.2\,Gbit/s"
    assert answer.values["ovs/2/change"].startswith("+20")
    assert answer.values["ovs/2/p"]
    assert answer.values["own"] == "1"
    found = Values("hubs")
    HUBS.estimates["rows"].put(found, answer["rows"], "driver")
    assert [found[f"bridge/n{nth}"] for nth in (0, 1)] == [r"11.0\,Gbit/s"] * 2


def test_it_is_shown_said_checked_and_written_from_the_declaration_alone(answer, out, capsys):
    answer.check()
    assert str(answer).splitlines()[0] == "Total against bridge: ovs −20 % to +20 % (1 higher, 1 lower, of 2)."
    answer.draw("nothing")
    assert capsys.readouterr().out == "nothing: there is no picture of a hub\n"
    answer.write("01-hubs")
    files = {path.name for path in out.rglob("*") if path.is_file()}
    assert files == {"hubs-netns-flowgen.tex", "across.tex", "01-hubs.tex"}
    with pytest.raises(UnknownName, match="hubs has no estimates 'most'; there are: total, few"):
        answer["most"]


def test_one_repetition_has_neither_interval_nor_test_and_says_so(tmp_path):
    once = question.ask(HUBS, write(tmp_path, repetitions=1))
    once.check()
    assert once.values["netns-flowgen/ovs/2/total-interval"] == "no interval from one repetition"
    assert once["differ"]["gap"].str.contains("has 1 repetition, and a comparison needs at least 2").all()
    for key in ("ovs/2/p", "netns-flowgen/2/differ-p"):
        with pytest.raises(KeyError):
            once.values[key]


_CHANGE_ONLY = {name: HUBS.estimates[name] for name in ("total", "change")}


def written(root, *each):
    for spec in each:
        store.write(run([1.0], **{"experiment": "hubs", "cores": 1} | spec), root)
    return root


def test_the_note_of_a_figure_says_how_the_systems_that_it_draws_were_measured(tmp_path):
    for backend, seconds in [("netns", 2.0), ("docker", 5.0)]:
        store.write(run([10], experiment="hubs", backend=backend, duration_s=seconds), tmp_path)

    def figure(each):
        return lambda answer: answer.panels(by_number, "total", where=lambda cells: cells[cells["backend"].isin(each)])

    figures = {"both": figure(["docker", "netns"]), "one": figure(["docker"])}
    answer = question.ask(replace(HUBS, figures=figures), tmp_path)
    both, one = (" ".join(answer.figure(name).get_supxlabel().split()) for name in figures)
    assert both.endswith("TCP cubic, 2 s (netns) or 5 s (docker) each, 2 CPUs")
    assert one.endswith("TCP cubic, 5 s each, 2 CPUs")


def test_few_panels_of_networks_are_in_one_row_and_all_have_one_order(tmp_path):
    for driver, cores in [("process", 1), ("nat", 1), ("host", 2)]:
        store.write(run([10], experiment="hubs", driver=driver, cores=cores), tmp_path)
    drawn = {"total": lambda answer: by_network(answer, "total", "core_text", ["1 cores", "2 cores"])}
    axes = question.ask(replace(HUBS, figures=drawn), tmp_path).figure("total").axes
    assert len({round(ax.get_position().y0, 3) for ax in axes}) == 1
    assert [[mark.get_text() for mark in ax.get_yticklabels()] for ax in axes] == [["host", "process", "nat"], []]


def test_where_nothing_could_be_compared_the_answer_says_so_and_why(tmp_path):
    alone = str(question.ask(HUBS, written(tmp_path / "alone", {})))
    assert alone.startswith("No answer: a comparison needs at least 2 of driver, and there are 1")
    others = written(tmp_path / "others", {"driver": "ovs"}, {"driver": "macvlan"})
    assert "nothing was measured with driver bridge" in str(question.ask(replace(HUBS, estimates=_CHANGE_ONLY), others))


def test_of_drivers_that_have_the_same_none_is_said_to_have_the_most(tmp_path):
    asks = replace(HUBS, estimates=_CHANGE_ONLY, answer=[extremes("total", "total")])
    alike = question.ask(asks, written(tmp_path / "alike", {}, {"driver": "ovs"}))
    assert str(alike).startswith("No answer: there is nothing to compare.")


def test_the_runs_of_one_host_answer_and_the_other_is_named(tmp_path):
    for repetition, cpus in enumerate((2, 4)):
        made = run([1.0], experiment="hubs", cores=1, repetition=repetition)
        host = {**made.facts["host"], "fingerprint": f"with {cpus}", "cpus": cpus}
        store.write(replace(made, facts={**made.facts, "host": host}), tmp_path)
    found = question.ask(HUBS, tmp_path)
    assert found["total"]["n"].to_list() == [1]
    assert "the others: Model & Maker 100% #1, 4 CPUs" in str(found)
