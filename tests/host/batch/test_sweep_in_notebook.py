"""A sweep that is run from a notebook: its progress, its interruption, and that it goes on."""

import asyncio

import pytest

from pairlab import load_runs
from pairlab.widgets import sweep
from tests.conftest import need
from tests.unit.widgets.fakes import until

PLAN = {
    "name": "of-a-notebook",
    "repetitions": 2,
    "experiments": {"throughput": {"pairs": [1, 2], "duration_s": 0.5, "workload": "flowgen"}},
}


@pytest.mark.whole  # it waits its turn for each of its cells
def test_a_sweep_is_measured_stopped_and_goes_on(tmp_path, clean_host):
    need("netns")

    async def use():
        shown = sweep(PLAN, root=tmp_path)
        try:
            await until(lambda: list(tmp_path.glob("throughput/[!.]*")))
            shown.stop_button.click()
            async with asyncio.timeout(60):
                await shown.task
            assert "Not complete" in shown.status.value
            assert len(load_runs(tmp_path)) < 4
            shown.go_on_button.click()
            async with asyncio.timeout(120):
                await shown.task
            await until(lambda: "4 of 4 cells ended" in shown.board.shown.value)
            assert {run.key for run in load_runs(tmp_path)} == shown.run_keys
        finally:
            shown.close()

    asyncio.run(use())
    assert {run.spec.pairs for run in load_runs(tmp_path)} == {1, 2}
