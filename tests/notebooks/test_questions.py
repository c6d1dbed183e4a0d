"""What holds of every question, over made-up runs of its experiment: all of them, few, and none."""

import re
from dataclasses import replace
from functools import cache

import pytest

from pairlab import paths, store
from pairlab.analysis import question
from pairlab.analysis.figures.style import LEAST_IN_BOX
from tests.conftest import mostly_whole
from tests.support import asked, synthetic
from tests.support.executed import Executed, figures, run_all

TOPICS = sorted(question.questions())
every_question = pytest.mark.parametrize("topic", TOPICS)
#: Outside CI, every fourth.
some_questions = pytest.mark.parametrize("topic", mostly_whole(TOPICS, but=TOPICS[::4]))
made = cache(asked.runs_of)
#: By topic, the notebook that asks the question.
NOTEBOOKS = {
    asks[1]: path.stem
    for path in sorted(paths.ANALYSES.glob("*.ipynb"))
    if (asks := re.search(r'question\.ask\(\\"([a-z-]+)', path.read_text()))
}


def everything(answer):
    """Makes whatever an answer can be asked for; the names of its figures."""
    answer.check()
    for name in answer.question.tables:
        answer.table(name)
    told(answer)
    assert answer.values
    return {name for name in answer.question.figures if answer.figure(name) is not None}


def told(answer):
    """The sentences before the account: at most three, which say what is known and nothing else."""
    said = "" if answer.gap else " ".join(filter(None, (make(answer) for make in answer.question.answer)))
    assert not re.search(r"\b(nan|NaN|None|inf)\b|-0 ", said), said
    assert said.endswith(".") or not said, said
    assert len(re.findall(r"\.(?= [A-Z]|$)", said)) <= 3, said
    assert str(answer).startswith(said)
    return said


@every_question
def test_what_was_planted_lies_in_its_interval_and_none_where_there_is_none(topic, ask):
    # There are many cells, of which one in twenty would miss at 95 %.
    answer, case = ask(topic, made(topic), confidence=0.999), asked.CASES[topic]
    assert everything(answer) or not answer.question.figures
    assert told(answer)
    for of, factor, planted in ((case.of, case.factor, case.planted), *case.also):
        frame = answer[of].dropna(subset=["low", "high"])
        for value, expected in planted.items():
            mine = frame[frame[factor] == value]
            assert len(mine), (of, frame[factor].unique())
            assert (mine["low"].le(expected + 1e-9) & mine["high"].ge(expected - 1e-9)).all(), (of, mine)
            assert expected != asked.FELL or (mine["high"] < 0).all(), (of, mine)
    for key, text in case.keyed.items():
        assert answer.values[key].startswith(text), (key, answer.values[key])


@pytest.mark.parametrize("topic", mostly_whole([*NOTEBOOKS], but=[*NOTEBOOKS][::4]))
def test_its_notebook_makes_each_figure_and_table_that_it_declares(topic, tmp_path):
    for run in made(topic, LEAST_IN_BOX if topic == "throughput" else 3):  # one of its figures has boxes
        store.write(run, tmp_path / "made")
    done = Executed(NOTEBOOKS[topic], tmp_path / "made", tmp_path)
    asks = question.questions()[topic]
    tabled = {path for path in done.made if path.startswith("paper/tables/")}
    assert done.made - tabled == figures("made", *asks.figures) | {f"paper/values/made/{NOTEBOOKS[topic]}.tex"}
    for name, declared in asks.tables.items():
        system = "-(netns|docker)-[a-z-]+" if declared.split else ""
        mine = {path for path in tabled if re.fullmatch(rf"paper/tables/made/{name}{system}\.tex", path)}
        assert bool(mine) is declared.file, name
        tabled -= mine
    assert not tabled


@every_question
def test_without_its_experiment_it_names_the_gap_draws_nothing_and_writes_its_numbers_only(topic, ask, out, capsys):
    answer = ask(topic, made("message-size" if topic == "pinning" else "pinning", 1))
    assert not everything(answer)
    assert answer.gap.startswith("there are no runs of ")
    assert answer.gap in str(answer)
    assert all(answer[estimates].empty for estimates in answer.question.estimates)
    answer.show(*answer.question.tables)
    answer.draw(*answer.question.figures)
    told = capsys.readouterr().out
    assert all(f"{name}: {answer.gap}" in told for name in (*answer.question.tables, *answer.question.figures))
    answer.write("asked")
    (path,) = (path for path in out.rglob("*") if path.is_file())
    assert path.name == "asked.tex"
    assert f"/missing}}{{{answer.gap}" in path.read_text()


def test_each_notebook_works_where_nobody_measured_what_it_asks_for(tmp_path, out, closes_figures):
    store.write(synthetic.run([1], experiment="another"), tmp_path / "others")
    run_all(tmp_path / "others", that_have="question.ask")
    made = {path for path in out.rglob("*") if path.is_file()}
    assert {path.parent for path in made} == {out / "paper" / "values" / "others"}
    assert all("/missing}{there are no runs of " in path.read_text() for path in made)
    assert len(made) == len([path for path in paths.ANALYSES.glob("*.ipynb") if "question.ask" in path.read_text()])


@some_questions
def test_one_repetition_has_no_interval_and_no_p_value(topic, ask):
    answer = ask(topic, made(topic, 1))
    everything(answer)
    for name in answer.question.estimates:
        frame = answer[name]
        assert "low" not in frame or frame["low"].isna().all(), name
        for p in {"p", "p_holm"} & {*frame}:
            assert frame[p].isna().all() or frame[p].min() == 1, name  # where all permutations are one
        if {"p", "gap"} <= {*frame} and "value" not in frame:
            assert (frame["p"].notna() | (frame["gap"] != "")).all(), name


@some_questions
def test_of_one_driver_alone_there_is_what_it_has(topic, ask):
    runs = made(topic, 2)
    alone = [run for run in runs if run.spec.driver == runs[0].spec.driver]
    everything(ask(topic, alone))


@pytest.mark.parametrize("topic", [topic for topic in TOPICS if question.questions()[topic].beside])
def test_of_several_experiments_each_may_be_missing_and_that_is_said(topic, ask):
    asks = question.questions()[topic]
    own, others = (
        [run for run in made(topic, 2) if (run.spec.experiment == asks.experiment) is it] for it in (True, False)
    )
    alone, without = ask(topic, own), ask(topic, others)
    everything(alone)
    assert alone.gaps == [f"there are no runs of {name!r} as this question needs them" for name in asks.beside]
    everything(without)
    assert without.gap == f"there are no runs of {asks.experiment!r} as this question needs them"
    assert without.gap in str(without)


@some_questions
def test_where_every_flow_failed_no_number_is_without_its_reason(topic, ask):
    everything(ask(topic, [asked.failing(run) for run in made(topic, 2)]))


@some_questions
def test_where_no_run_counts_the_gap_says_why(topic, ask):
    answer = ask(topic, [replace(run, status="invalid", reasons=("too late",)) for run in made(topic, 1)])
    assert not everything(answer)
    assert "too late" in answer.gap
