import contextlib
import re
import shutil

import psutil
import pytest

from pairlab import paths, store
from pairlab.analysis.output import paper, texlive
from pairlab.errors import NoRuns, OutOfDate, PairlabError, Unavailable
from pairlab.store.dataset import load_runs
from tests.support.executed import run_all
from tests.support.pdflatex import pdflatex
from tests.support.synthetic import run

lacking = ", ".join(texlive.missing())
needs_latex = pytest.mark.skipif(bool(lacking), reason=f"LaTeX lacks {lacking}: no paper to build")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What the notebooks leave behind for the paper, of runs too few for a comparison, and these runs."""
    place = tmp_path_factory.mktemp("made")
    for repetition in (0, 1):
        for driver, rate in (("bridge", 4), ("my_driver", 5)):
            store.write(run([rate + repetition], driver=driver, repetition=repetition), place / "few_runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAIRLAB_OUT", str(place / "out"))
        run_all(place / "few_runs")
    return place


@pytest.fixture
def results(made, tmp_path, out):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return out / "paper"


@pytest.mark.whole
@needs_latex
def test_the_paper_is_built_where_only_one_backend_and_no_reference_was_measured(results):
    assert paper.build("few_runs") == results / "main.pdf"
    assert (results / "main.pdf").read_bytes().startswith(b"%PDF")
    log = (results / "build" / "main.log").read_text(errors="replace")
    assert "undefined" not in log
    assert "Overfull \\hbox" not in log


@needs_latex
def test_an_unknown_result_stops_the_paper_and_is_named(results, monkeypatch, tmp_path):
    changed = tmp_path / "sources"
    shutil.copytree(paths.PAPER, changed, ignore=shutil.ignore_patterns("build", "values", "tables"))
    main = (changed / "main.tex").read_text()
    main = main.replace(r"\end{abstract}", "\\result{throughput/bridge/10/totl}\n\\end{abstract}")
    (changed / "main.tex").write_text(main)
    monkeypatch.setattr(paths, "PAPER", changed)
    with pytest.raises(PairlabError, match=r"There is no result 'throughput/bridge/10/totl'.*main\.log"):
        paper.build("few_runs")
    assert not (results / "main.pdf").exists()


@needs_latex
def test_words_that_are_bound_to_a_claim_stand_only_where_all_that_judged_it_agree(tmp_path):
    asked = {"a": "holds", "b": "contradicted", "c": "mixed", "d": "not judged", "f": "holds in direction"}
    known = "".join(rf"\defineresult{{claims/{claim}/verdict}}{{{verdict}}}" for claim, verdict in asked.items())
    says = "".join(
        rf"\ifholds{{{claim}}}{{\typeout{{{claim}: it holds}}}}{{\typeout{{{claim}: otherwise}}}}"
        rf"\ifverdict{{{claim}}}{{{verdict}}}{{\typeout{{{claim}: as asked}}}}{{\typeout{{{claim}: another}}}}"
        for claim, verdict in asked.items()
    )
    head = r"\documentclass{article}\newcommand{\runslabel}{x}\usepackage{pairlab}"
    (tmp_path / "main.tex").write_text(rf"{head}{known}\begin{{document}}{says}\end{{document}}")
    (tmp_path / "wrong.tex").write_text(rf"{head}\begin{{document}}\ifholds{{e}}{{yes}}{{no}}\end{{document}}")
    done, wrong = pdflatex(tmp_path), pdflatex(tmp_path, "wrong.tex")
    assert re.findall(r"^[a-f]: .*", done.stdout, re.MULTILINE) == [
        *("a: it holds", "a: as asked", "b: otherwise", "b: as asked"),
        *("c: otherwise", "c: as asked", "d: otherwise", "d: as asked"),
        *("f: it holds", "f: as asked"),
    ]
    assert "There is no claim 'e' labelled 'x'" in wrong.stdout
    assert wrong.returncode != 0


@needs_latex
def test_bounds_stand_without_their_unit_and_a_reason_for_having_none_in_parentheses(tmp_path):
    asked = {"a": r"[1.0, \textminus{}2.5] Gbit/s", "b": "[3, 4]", "c": "no interval from one repetition"}
    known = "".join(rf"\defineresult{{{key}}}{{{text}}}" for key, text in asked.items())
    says = "".join(rf"\typeout{{{key}: \resultbounds{{{key}}}}}" for key in asked)
    head = r"\documentclass{article}\newcommand{\runslabel}{x}\usepackage{pairlab}"
    (tmp_path / "main.tex").write_text(rf"{head}{known}\begin{{document}}{says}\end{{document}}")
    done = pdflatex(tmp_path)
    assert done.returncode == 0
    assert re.findall(r"^[a-c]: .*", done.stdout, re.MULTILINE) == [
        r"a: [1.0, \textminus {}2.5]",
        "b: [3, 4]",
        "c: (no interval from one repetition)",
    ]


@needs_latex
def test_a_paper_of_the_runs_there_are_is_built_whatever_else_lies_beside(results, tmp_path):
    (results / "tables" / "few_runs" / "throughput-left-over.tex").write_text(
        "% table throughput-left-over: made from 1 runs of few_runs, measured 2020-01-01, keys 0123456789abcdef.\n"
    )
    assert paper.build("few_runs", runs=tmp_path / "few_runs") == results / "main.pdf"


@pytest.mark.whole
def test_a_value_file_of_other_runs_stops_the_paper_before_latex(results, tmp_path, monkeypatch):
    monkeypatch.setattr(texlive, "missing", list)
    monkeypatch.setattr(texlive, "run", lambda *args, **options: pytest.fail("LaTeX was run"))
    store.write(run([3], driver="bridge", repetition=2), tmp_path / "few_runs")
    told = r"01-throughput\.tex \(notebooks/analysis/01-throughput\.ipynb\)"
    with pytest.raises(OutOfDate, match=f"of its results were made of other runs .*{told}"):
        paper.build("few_runs", runs=load_runs(tmp_path / "few_runs"))
    assert not (results / "main.pdf").exists()


@needs_latex
@pytest.mark.parametrize(
    ("old", "maker"),
    [
        ("figures/few_runs/throughput-total.pgf", "01-throughput"),
        ("paper/tables/few_runs/testbed-runs.tex", "29-testbed"),
    ],
)
def test_a_table_or_figure_of_other_runs_stops_the_paper_and_is_named(results, tmp_path, old, maker):
    file = results.parent / old
    file.write_text(re.sub("keys [0-9a-f]{16}", "keys 0123456789abcdef", file.read_text()))
    with pytest.raises(OutOfDate, match=rf"{re.escape(str(file))} \(notebooks/analysis/{maker}\.ipynb\)"):
        paper.build("few_runs", runs=tmp_path / "few_runs")
    assert not (results / "main.pdf").exists()


@needs_latex
def test_a_figure_that_only_exists_as_an_old_pdf_stops_the_paper(results, tmp_path):
    figure = results.parent / "figures" / "few_runs" / "throughput-total.pdf"
    figure.with_suffix(".pgf").unlink()
    figure.write_bytes(re.sub(b"keys [0-9a-f]{16}", b"keys 0123456789abcdef", figure.read_bytes()))
    with pytest.raises(OutOfDate, match=r"throughput-total\.pdf"):
        paper.build("few_runs", runs=tmp_path / "few_runs")


def test_without_latex_it_says_what_to_install(out, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(
        Unavailable, match=r"the paper needs latexmk, pdflatex.*apt-get install latexmk texlive-latex-r"
    ):
        paper.build()


def test_with_half_of_latex_the_missing_files_are_named(out, monkeypatch, tmp_path):
    for name in ("latexmk", "pdflatex", "kpsewhich"):
        (tmp_path / name).write_text("#!/bin/sh\necho /texmf/siunitx.sty; echo /texmf/pgf.sty; exit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert texlive.missing() == ["IEEEtran.cls", "booktabs.sty"]
    with pytest.raises(Unavailable, match=r"needs IEEEtran\.cls, booktabs\.sty, .*texlive-publishers"):
        paper.build()


@pytest.mark.whole
def test_latex_that_does_not_end_is_ended_with_what_it_started_and_the_log_is_named(results, monkeypatch, tmp_path):
    fake = tmp_path / "bin" / "latexmk"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nsleep 1000 & echo $! >child\nwait\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(fake.parent), prepend=":")
    monkeypatch.setattr(texlive, "missing", list)
    monkeypatch.setattr(texlive, "WITHIN_S", 0.5)
    with pytest.raises(PairlabError, match=r"latexmk did not end within 0\.5 s; .*/build/\w+\.log"):
        paper.build("few_runs")
    for child in results.glob("child"):  # unless this machine was too busy to come so far
        with contextlib.suppress(psutil.NoSuchProcess):
            sleeping = psutil.Process(int(child.read_text()))
            if sleeping.status() != psutil.STATUS_ZOMBIE:
                sleeping.wait(30)  # it was killed, and may wait for a CPU to die on


def test_make_tools_installs_what_the_remedy_names():
    told = (paths.ROOT / "lib" / "tools.sh").read_text()
    packages = re.search(r'^packages="(.*?)"', told, re.DOTALL | re.MULTILINE)[1].split()
    latex = [package for package in packages if package.startswith(("latex", "texlive"))]
    assert tuple(latex) == texlive.PACKAGES


def test_without_results_it_says_which_notebook_makes_them(out, monkeypatch):
    monkeypatch.setattr(texlive, "missing", list)
    with pytest.raises(NoRuns, match="no results labelled 'reference'"):
        paper.build()
