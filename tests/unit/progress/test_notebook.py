"""Progress in a notebook: in real kernels, as JupyterLab and papermill have them."""

import re

import nbformat
import pytest
from nbclient import NotebookClient
from traitlets.config import Config

from pairlab.batch import execute, kernels
from pairlab.progress import notebook
from pairlab.progress.relay import Reports
from pairlab.testbed.cleanup.workdir import working_directory

SEVEN_A_SECOND = """
import time
from pairlab.progress import automatic
with automatic() as progress:
    begun = time.monotonic()
    progress("bringing up", 1, 2)
    for done in range(200):
        progress("<b>measuring</b> (s)", done / 100, 2.0)
        time.sleep(0.005)
    took_s = time.monotonic() - begun
print(took_s)
"""

#: As few as the smallest queue of datagrams takes (net.unix.max_dgram_qlen, 10): what does not fit into it is lost.
NINE_IN_ALL = """
from pairlab.progress import automatic
with automatic() as progress:
    progress("bringing up", 1, 2)
    for done in range(8):
        progress("<b>measuring</b> (s)", done / 4, 2.0)
"""


class Client(NotebookClient):
    """Keeps what the kernel displays, in all its states."""

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.displayed = []

    def process_message(self, message, cell, index):
        if message["msg_type"] in ("display_data", "update_display_data"):
            self.displayed.append((message["msg_type"], message["content"]["data"]))
        return super().process_message(message, cell, index)


@pytest.fixture
def executed():
    """Executes cells in a kernel; returns what it displayed in all its states, and the notebook as it is then."""

    def executed(*cells, **named):
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        with working_directory() as place, kernels.kept():
            config = Config(KernelManager={"transport": "ipc", "connection_file": f"{place}/kernel.json"})
            client = Client(
                book, config=config, kernel_manager_class="pairlab.batch.kernels.ForkedKernelManager", **named
            )
            client.execute()
        return client.displayed, book.cells

    return executed


@pytest.mark.whole
def test_a_bar_is_updated_in_place_not_too_often_and_ends_as_one_line(executed):
    displayed, (cell,) = executed(SEVEN_A_SECOND)
    (output,) = (each for each in cell.outputs if each.output_type == "display_data")
    (took,) = (each.text for each in cell.outputs if each.output_type == "stream")
    assert [kind for kind, _ in displayed] == ["display_data"] + (len(displayed) - 1) * ["update_display_data"]
    assert 3 < len(displayed) <= 3 + 5 * float(took)
    assert '<progress max="2" value="1"' in displayed[0][1]["text/html"]
    assert ">bringing up 1/2<" in displayed[0][1]["text/html"]
    assert re.search(r">&lt;b&gt;measuring&lt;/b&gt; [01]\.\d+/2 s<", displayed[-2][1]["text/html"])
    told = output.data["text/plain"]
    assert re.fullmatch(r"done in \d+\.\d s: bringing up \d+\.\d s, <b>measuring</b> \d+\.\d s", told)
    assert "<progress" not in output.data["text/html"]
    assert "<b>" not in output.data["text/html"]
    assert "--jp-ui-font-color1" in output.data["text/html"]


@pytest.mark.whole
def test_what_breaks_off_says_where(executed):
    broken = "from pairlab.progress import automatic\nwith automatic() as p:\n    p('measuring (s)', 1, 2)\n    1 / 0"
    _, (cell,) = executed(broken, allow_errors=True)
    assert [output.output_type for output in cell.outputs] == ["display_data", "error"]
    assert re.fullmatch(r"ended after \d+\.\d s, while measuring", cell.outputs[0].data["text/plain"])


@pytest.mark.whole
def test_work_that_has_no_phase_displays_nothing(executed):
    assert executed("from pairlab.progress import automatic\nwith automatic():\n    pass")[0] == []


def test_a_notebook_that_pairlab_runs_tells_pairlab_and_keeps_the_short_line_alone(tmp_path):
    source, target, heard = tmp_path / "source.ipynb", tmp_path / "target.ipynb", []
    cell = nbformat.v4.new_code_cell(NINE_IN_ALL)
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), source)
    execute.execute(source, target, {}, Reports(lambda *told: heard.append(told)))
    assert heard[:2] == [("starting the notebook", 0, 0), ("bringing up", 1, 2)]
    assert heard[2:] == [("<b>measuring</b> (s)", done / 4, 2) for done in range(8)]
    outputs = nbformat.read(target, 4).cells[-1].outputs
    (line,) = (output.data["text/plain"] for output in outputs if output.output_type == "display_data")
    assert line.startswith("done in ")


def test_a_phase_without_a_count_has_a_bar_without_an_end():
    assert "<progress style=" in notebook.drawn("taking down", 0, 0)
    assert 'aria-label="&quot;&gt;&lt;script&gt;"' in notebook.drawn('"><script>', 0, 0)


def test_a_program_is_no_notebook():
    assert not notebook.here()
