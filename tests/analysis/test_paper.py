import re
import shutil

import pytest

from pairlab import paths, store
from pairlab.analysis import figures, latex, paper, stats, texlive, throughput
from pairlab.analysis.origin import origin_of
from pairlab.collection import load_runs
from pairlab.errors import NoRuns, PairlabError, Unavailable

from .synthetic import run

lacking = ", ".join(texlive.missing())
needs_latex = pytest.mark.skipif(bool(lacking), reason=f"LaTeX lacks {lacking}: no paper to build")


@pytest.fixture
def results(tmp_path, out):
    """What the notebook leaves behind for the paper, of runs too few for a comparison."""
    for repetition in (0, 1):
        for driver, rate in (("bridge", 4), ("my_driver", 5)):
            store.write(run([rate + repetition], driver=driver, repetition=repetition), tmp_path / "few_runs")
    runs = load_runs(tmp_path / "few_runs")
    origin = origin_of(runs, tmp_path / "few_runs")
    cells = stats.throughput_by_cell(runs.flows)
    repetitions = stats.throughput_by_repetition(runs.flows)
    shape = stats.normalised_shape(repetitions)
    nothing = throughput.comparison(shape.cells, stats.normalised_shape(cells.assign(paper="E"), by=["paper"]).cells)
    level = stats.normalised_shape(repetitions, pairs=None)
    throughput.values(runs, cells, shape, level, nothing).write("01-throughput", origin)
    latex.write_table(throughput.table(cells), "throughput-netns-flowgen", origin)
    figures.save(figures.by_system(cells, figures.total_by_pairs), "throughput-total", origin)
    figures.save(figures.by_system(repetitions, figures.box_by_pairs, wide=True), "throughput-box", origin)
    return out / "paper"


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


def test_make_tools_installs_what_the_remedy_names():
    told = (paths.ROOT / "lib" / "tools.sh").read_text()
    packages = re.search(r'^packages="(.*?)"', told, re.DOTALL | re.MULTILINE)[1].split()
    latex = [package for package in packages if package.startswith(("latex", "texlive"))]
    assert tuple(latex) == texlive.PACKAGES


def test_without_results_it_says_which_notebook_makes_them(out, monkeypatch):
    monkeypatch.setattr(texlive, "missing", list)
    with pytest.raises(NoRuns, match="no results labelled 'reference'"):
        paper.build()
