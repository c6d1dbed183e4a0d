"""`pytest --nbval`, as its users call it, and the rules that it holds figures to."""

import subprocess
import sys

import matplotlib.pyplot as plt
import nbformat
import pytest

from pairlab import paths
from tests.support import figure_rules

NOTEBOOKS = sorted([*paths.EXPERIMENTS.glob("*.ipynb"), *paths.ANALYSES.glob("*.ipynb")])

#: A figure whose x axis has no unit, saved as an analysis does.
UNNAMED = """
import matplotlib.pyplot as plt
from pairlab.analysis.figures import files
from pairlab.analysis.output.provenance import Origin
figure, ax = plt.subplots(figsize=(3.5, 2))
ax.set(xlabel="Speed", ylabel="Total throughput (Gbit/s)")
_ = files.save(figure, "unnamed", Origin("made-up", "runs/made-up", "", 1, "2024-05-01", "2024-05-02", "0123456789ab"))
"""


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_tells_its_question_then_its_parameters_and_calls_the_library(path):
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    assert notebook.cells[0].cell_type == "markdown"
    assert notebook.cells[1].metadata["tags"] == ["parameters"]
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    assert not [word for word in ("class ", "subprocess", "open(", "/work", "/home", "/tmp") if word in code]
    assert path.stat().st_size < 1_000_000
    shown = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not any("image/png" in data for data in shown)  # figures are SVG


@pytest.mark.whole
def test_nbval_compares_outputs_sanitizes_figures_and_holds_them_to_the_rules(tmp_path, out, clean_host, monkeypatch):
    transport = "import ipykernel\nipykernel.get_connection_info(unpack=True)['transport']"
    kernel = ("import sys\nsys.executable", repr(sys.executable))
    write(tmp_path / "good.ipynb", kernel, (transport, "'ipc'"), ("print('<svg one </svg>')", "<svg other </svg>\n"))
    other = tmp_path / "kernels" / "python3" / "kernel.json"
    other.parent.mkdir(parents=True)
    other.write_text('{"argv": ["/usr/bin/false"], "display_name": "Other"}')
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    write(tmp_path / "bad.ipynb", ("1 + 1", "3"), (UNNAMED, None))
    command = [sys.executable, "-m", "pytest", "-p", "notebooks.conftest", "-p", "no:cacheprovider", "-n", "2"]
    done = subprocess.run(
        [*command, "--nbval", str(tmp_path)], capture_output=True, text=True, cwd=paths.ROOT, check=False
    )
    assert " 2 failed, 3 passed " in done.stdout, done.stdout + done.stderr
    assert "('unnamed', 'Speed')" in done.stdout, done.stdout


def write(path, *cells):
    """A notebook of these sources with the outputs that they are said to have had."""
    made = []
    for source, output in cells:
        outputs = []
        if output and "print" in source:
            outputs.append(nbformat.v4.new_output("stream", name="stdout", text=output))
        elif output:
            outputs.append(nbformat.v4.new_output("execute_result", {"text/plain": output}, execution_count=1))
        made.append(nbformat.v4.new_code_cell(source, outputs=outputs, execution_count=1))
    nbformat.write(nbformat.v4.new_notebook(cells=made), path)


@pytest.fixture
def good(closes_figures):
    figure, ax = plt.subplots(figsize=(figure_rules.style.COLUMN_IN, 2), layout="constrained")
    ax.plot([1, 2], [1, 2], label="bridge")
    ax.set(xlabel="Pairs", ylabel="Total throughput (Gbit/s)")
    figure.legend()
    figure.supxlabel("n = 3")
    return figure


def held(figure):
    """The rules that a figure breaks, by name."""
    figure.draw_without_rendering()
    broken = []
    for rule in figure_rules.RULES:
        try:
            rule(figure, "planted")
        except AssertionError:
            broken.append(rule.__name__)
    return broken


def test_a_good_figure_breaks_no_rule(good):
    assert held(good) == []


@pytest.mark.parametrize(
    ("rule", "spoil"),
    [
        ("axes_are_named", lambda figure: figure.axes[0].set_ylabel("Total throughput")),
        ("axes_are_named", lambda figure: figure.axes[0].tick_params(labelbottom=False)),
        ("says_of_how_many", lambda figure: figure.supxlabel("three repetitions")),
        ("drivers_are_named", lambda figure: figure.axes[0].plot([1, 2], [2, 3], label="macvlan")),
        ("nothing_overlaps", lambda figure: figure.axes[0].set_title("wide " * 60)),
        ("nothing_overlaps", lambda figure: figure.axes[0].set_xticks([1, 1.001], ["one", "two"])),
        ("one_or_two_columns_wide", lambda figure: figure.set_figwidth(5)),
    ],
)
def test_a_spoilt_figure_breaks_its_rule(good, rule, spoil):
    spoil(good)
    assert held(good) == [rule]
