"""The parameters of a notebook: each line of their cell is read as Python reads it, or refused."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from pairlab.base import parameters_cell
from pairlab.batch import experiments
from pairlab.errors import BadInput


def notebook(folder, source, *tags, others=()):
    cells = [new_markdown_cell("# mine"), *(new_code_cell(each) for each in others), new_code_cell(source)]
    cells[-1].metadata.tags = list(tags or ["parameters"])
    path = folder / "mine.ipynb"
    path.write_text(nbformat.writes(new_notebook(cells=cells)))
    return path


def values(path):
    return {name: each.default for name, each in parameters_cell.read(path).items()}


@pytest.mark.parametrize(
    "source",
    [
        "pairs = 2; duration_s = 1.0",
        "pairs, d = 2, 1.0",
        "[pairs, (d, e)] = 2, (1.0, 'x')",
        "pairs = seed = 3",
        'pairs = 2  # "two" # of them; = 3',
        "driver = 'a # b'  # it's \"one\" = x",
        "flow_bytes = 5 * 10**6",
        "flow_bytes = 1 << 20",
        "flow_bytes = -(-5 // 2) + 7 % 4 - 1",
        "link_loss = 1 / 4",
        "pairs: int = 4",
        "flow_bytes = (\n    5_000  # B\n    * 1000\n)",
        "driver = (\n  'bri'\n  'dge'\n)",
        "fresh = False\nnothing = None",
        "pairs = 0x10\npairs = 3",
        "'what it measures'\npairs = 1",
        "",
    ],
)
def test_a_cell_is_read_as_python_reads_it(tmp_path, source):
    there = {}
    exec(source, {}, there)
    assert repr(values(notebook(tmp_path, source))) == repr({k: v for k, v in there.items() if k[0] != "_"})


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("pairs = 2\nfor pairs in range(3): pass", 2),
        ("base = 2\npairs = base * 2", 2),
        ("pairs = int('3')", 1),
        ("pairs = 2\npairs += 1", 2),
        ("pairs = 2 if True else 3", 1),
        ("pairs: int", 1),
        ("globals()['pairs'] = 2", 1),
        ("from settings import pairs", 1),
        ("import os", 1),
        ("pairs = 2\n%matplotlib inline", 2),
        ("pairs, d = 2", 1),
        ("pairs, d = 2, 3, 4", 1),
        ("pairs, *d = 2, 3", 1),
        ("flow_bytes = 9**9**9", 1),
        ("flow_bytes = 1 << 10**9", 1),
        ("flow_bytes = 2**4000 * 2**4000", 1),
        ("flow_bytes = 10**10**10 * 0", 1),
        ("flow_bytes = 1 / 0", 1),
        ("flow_bytes = (-8) ** 0.5", 1),
        ("driver = 'a' * 10**9", 1),
        ("pairs = -True", 1),
        ("pairs = " + "(" * 300, 1),
        ("pairs = " + "-" * 5000 + "1", 1),
    ],
)
def test_any_other_line_is_refused_with_its_cell_and_text(tmp_path, source, line):
    path = notebook(tmp_path, source)
    with pytest.raises(BadInput) as caught:
        values(path)
    told = str(caught.value)
    assert told.startswith(f"{path}: cell 2, tagged 'parameters': line {line} is not ")
    assert source.splitlines()[line - 1][:60] in told
    assert len(told) < 500


@pytest.mark.parametrize(
    ("tags", "told"),
    [(["other"], "has no cell tagged 'parameters'"), (["parameters", "injected-parameters"], "added by papermill")],
)
def test_a_notebook_has_one_cell_of_parameters_and_none_that_overrides_it(tmp_path, tags, told):
    with pytest.raises(BadInput, match=told):
        values(notebook(tmp_path, "pairs = 2", *tags))


def test_a_comment_is_the_meaning_of_the_values_on_its_line(tmp_path):
    path = notebook(
        tmp_path, 'pairs = 2  # of "two" # ends\nflow_bytes = (\n  1  # not this\n)  # B, payload\nseed = 0'
    )
    found = parameters_cell.read(path)
    assert [each.meaning for each in found.values()] == ['of "two" # ends', "B, payload", ""]


@pytest.mark.parametrize("experiment", sorted(experiments.notebooks()))
def test_every_parameter_of_the_experiments_has_a_meaning(experiment):
    assert all(each.meaning for each in experiments.parameters(experiment).values())
