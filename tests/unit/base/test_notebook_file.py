"""What is no notebook is refused with the reason, and what to do; what some tools leave out or null is not."""

import json

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from pairlab.base import notebook_file, parameters_cell
from pairlab.errors import BadInput

WHOLE = nbformat.writes(new_notebook(cells=[new_code_cell("pairs = 2", id="first", metadata={"tags": ["parameters"]})]))
MERGED = WHOLE.replace(' "cells"', '<<<<<<< HEAD\n "cells"').replace(' "metadata": {},', "=======\n>>>>>>> theirs\n", 1)


@pytest.mark.parametrize(
    ("content", "why", "remedy"),
    [
        (b"\xef\xbb\xbf" + WHOLE.encode(), "it begins with a byte order mark", "save it as UTF-8 without one"),
        (WHOLE.encode("utf-16"), "its byte 0 is not UTF-8", "save it as UTF-8"),
        (MERGED, "line 2 is the mark of a merge conflict (<<<<<<< HEAD)", "settle it, or take one side"),
        (
            json.dumps({"nbformat": 3, "metadata": {}, "worksheets": []}),
            "of format 4, but of format 3",
            "save it in JupyterL",
        ),
        (
            json.dumps({"nbformat": 5, "metadata": {}, "cells": []}),
            "of format 4, but of format 5",
            "save it in JupyterLab",
        ),
        (WHOLE[:40], "no JSON: ", "Take it from git or a copy"),
        ("", "it is empty", "take it from git or a copy"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "git-lfs", "`git lfs pull`"),
        ('{"metadata": {}}', "it has no cells", "save it in Jupyter"),
        ('["cells"]', "it has no cells", "save it in Jupyter"),
        ('{"metadata": {}, "cells": [1]}', "a cell has no type or source", "save it in Jupyter"),
    ],
)
def test_what_is_no_notebook_is_refused_with_the_reason_and_a_remedy(content, why, remedy, tmp_path):
    path = tmp_path / "mine.ipynb"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BadInput) as refused:
        parameters_cell.read(path)
    said = str(refused.value)
    assert said.startswith(f"{path} is not a notebook")
    assert why in said
    assert remedy in said.partition(why)[2]


def test_what_looks_like_a_conflict_in_a_cell_is_none(tmp_path):
    path = tmp_path / "mine.ipynb"
    path.write_text(nbformat.writes(new_notebook(cells=[new_code_cell("<<<<<<< HEAD\n=======\n>>>>>>> theirs")])))
    assert len(notebook_file.content(path)["cells"]) == 1


def test_metadata_that_are_null_are_none(tmp_path):
    path, notebook = tmp_path / "mine.ipynb", json.loads(WHOLE)
    notebook["metadata"] = {"kernelspec": None, "language_info": None}
    notebook["cells"] += [{"cell_type": "markdown", "source": "# mine", "metadata": None}]
    notebook["cells"] += [{"cell_type": "code", "source": ["1"], "metadata": {"tags": None}}]
    path.write_text(json.dumps(notebook))
    assert parameters_cell.read(path)["pairs"].default == 2
