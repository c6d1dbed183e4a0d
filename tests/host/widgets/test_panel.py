"""The panel with real measurements: what it builds, shows and stores, and that Stop leaves nothing."""

import asyncio

import pytest

from pairlab import store
from pairlab.measurement import in_subprocess
from pairlab.widgets.panel import RunPanel
from tests.conftest import any_backend, need
from tests.unit.widgets.fakes import Host, until


@pytest.fixture
def begun(tmp_path):
    """Has a panel measure what it is asked for."""

    def begun(**preset):
        attend, choices = in_subprocess.attend_async, Host().choices()
        preset = {"workload": "flowgen", "pairs": 2} | preset
        panel = RunPanel(preset, root=tmp_path, attend=attend, choices=choices, check=lambda spec: None)
        panel.run_button.click()
        return panel

    return begun


@pytest.mark.parametrize("backend", any_backend())
def test_a_measurement_in_the_panel_is_stored_as_any_other(backend, begun, tmp_path, clean_host):
    need(backend)

    async def use():
        shown = begun(backend=backend, duration_s=1.0, max_foreign_cpu=1.0, max_skew_s=1.0)
        await until(lambda: not shown.running)
        spec = shown.results.runs[0].spec
        assert (spec.backend, spec.pairs) == (backend, 2)
        assert store.find(spec, tmp_path).flows["throughput_bps"].sum() > 0
        assert shown.live.state.last.total_bps > 0

    asyncio.run(use())


@pytest.mark.parametrize("backend", any_backend())
def test_stop_in_mid_run_leaves_the_host_clean(backend, begun, tmp_path, clean_host):
    need(backend)

    async def use():
        shown = begun(backend=backend, duration_s=60.0)
        await until(lambda: shown.live.state and shown.live.state.last, within_s=60)
        shown.stop_button.click()
        await until(lambda: not shown.running, within_s=30)
        assert "Stopped" in shown.status.value
        assert store.find(shown.live.state.spec, tmp_path) is None

    asyncio.run(use())
