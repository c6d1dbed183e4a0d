"""A kernel, a page or a notebook that is ended in mid-run leaves nothing on the host."""

import re

import pytest
from playwright.sync_api import expect

from pairlab.testbed.audit import snapshot
from tests.browser.conftest import wait_clean
from tests.browser.jupyter import KERNEL

#: In a page: whether the panel says that its kernel is gone, where it said that it runs.
SAYS_SO = "getComputedStyle(document.querySelector('.pairlab-status'), '::before').content.includes('was restarted')"
LIVE = re.compile(r"total [0-9.]+ [kMG]?bit/s")


@pytest.mark.whole
def test_restarting_the_kernel_in_mid_run_ends_the_measurement(workbench, lab, picture):
    before = snapshot.take()
    workbench.choose(pairs=5, duration_s=60)
    workbench.run()
    expect(workbench.figures).to_contain_text(LIVE)
    workbench.page.locator("[data-command='notebook:restart-kernel']").click()
    kernels = lab.kernel_pids()
    assert kernels
    workbench.page.locator(".jp-Dialog button.jp-mod-accept").click()
    lab.wait_for_end(kernels)  # Jupyter asks a kernel to leave, and is patient with it
    wait_clean(before, but=(KERNEL,))
    assert lab.runs() == []
    workbench.page.wait_for_function(SAYS_SO)
    expect(workbench.status.get_by_text("Running")).to_be_hidden()
    picture(workbench.page, "kernel-restarted")
    workbench.run_all_cells()  # a panel as new, for the same notebook


@pytest.mark.whole
def test_a_run_whose_page_is_closed_ends_and_is_stored(workbench, lab):
    """JupyterLab keeps the kernel of a notebook that nobody looks at."""
    before = snapshot.take()
    workbench.choose(pairs=5, duration_s=4)
    workbench.run()
    expect(workbench.figures).to_contain_text(LIVE)
    workbench.page.close()
    (run,) = lab.wait_for_runs()
    assert (run.status in ("ok", "invalid"), run.failed_flows) == (True, 0), run.reasons
    wait_clean(before)


def test_a_notebook_that_is_shut_down_in_mid_run_leaves_a_clean_host(workbench, lab, picture):
    before = snapshot.take()
    workbench.choose(pairs=5, duration_s=60)
    workbench.run()
    expect(workbench.figures).to_contain_text(LIVE)
    lab.end_kernels()  # as File, Close and Shut Down Notebook does
    wait_clean(before)
    assert lab.runs() == []
    workbench.page.wait_for_function(SAYS_SO)
    picture(workbench.page, "kernel-ended")
