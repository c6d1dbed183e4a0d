"""Plugins of other packages: found in isolated interpreters too, and what is said where they are missing or broken."""

import json
import subprocess
import sys
from importlib import metadata

import pytest

from pairlab import Spec, load_runs, paths
from pairlab.base import entry_points
from pairlab.errors import BadSpec, Unavailable
from pairlab.testbed import registry
from pairlab.testbed.cleanup import child_processes
from pairlab.testbed.netns.sandbox import import_path

#: The drivers that are not pairlab's own.
ADDED = [name for name in registry.drivers.names() if name in entry_points.added("drivers")]

#: Loads drivers as the agent of a sandbox does (netns/networks.py), and prints their names.
AS_THE_AGENT = """
import sys
from pairlab.testbed.netns.agent import Agent
agent = Agent(None, print, 0)
print(*(agent._kind(path).name for path in sys.argv[1:]))
assert "pairlab.testbed.registry" not in sys.modules, "it imported every plugin"
"""

#: What pairlab makes of a stored run where no other package is installed.
WITHOUT_PLUGINS = """
import json, sys
from importlib import metadata
from pathlib import Path
metadata.entry_points = lambda **how: metadata.EntryPoints()
from pairlab import Spec, store
from pairlab.errors import BadSpec
from pairlab.analysis.figures import style
from pairlab.base import topology
run = store.read(Path(sys.argv[1]))
try:
    refused = repr(Spec(driver=run.spec.driver))
except BadSpec as error:
    refused = str(error)
shown = {"card": run._repr_html_(), "words": topology.describe(run.facts["network"])}
print(json.dumps({"key": run.spec.key, "refused": refused, **shown, **style.driver_style(run.spec.driver)}))
"""


def test_there_are_drivers_and_workloads_of_other_packages():
    assert ADDED
    assert entry_points.added("workloads")


@pytest.mark.parametrize("kind", ["drivers", "workloads"])
def test_an_entry_point_has_its_plugins_name_by_which_it_is_found_without_loading_all_others(kind):
    for name, point in entry_points.added(kind).items():
        assert entry_points.load(point).name == name


@pytest.mark.parametrize("option", ["-P", "-I"])
def test_a_sandboxs_agent_which_is_isolated_finds_drivers_of_other_packages(option):
    agent = [sys.executable, option, "-c", AS_THE_AGENT]
    found = [*agent, *(import_path(registry.drivers.get(name)) for name in ADDED)]
    done = subprocess.run(found, cwd="/", env=child_processes.needed(), capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (ADDED, "")


def stored_run_of_another_packages_driver():
    for run in load_runs(paths.REFERENCE, experiment="multi-host", environment="all"):
        if run.spec.driver in ADDED:
            return run
    raise AssertionError("no run of the reference has such a driver")


def test_a_stored_run_is_shown_without_the_package_of_its_driver_and_the_spec_says_which_it_needs():
    stored = stored_run_of_another_packages_driver()
    script = [sys.executable, "-c", WITHOUT_PLUGINS, stored.path]
    shown = json.loads(subprocess.run(script, capture_output=True, text=True, check=True).stdout)
    driver = stored.spec.driver
    assert shown["key"] == stored.key
    assert driver in shown["card"]
    assert "host-1: server" in shown["words"]
    assert shown["color"].startswith("#")
    assert f"no driver '{driver}'" in shown["refused"]
    assert "pairlab-overlays has it: make setup" in shown["refused"]


def test_where_nobody_has_the_name_no_package_is_named():
    with pytest.raises(BadSpec, match=r"no driver 'carrier-pigeon' \(there are: .*\)$"):
        Spec(driver="carrier-pigeon")


@pytest.mark.parametrize("value", ["no_such_package:Driver", "json:NoSuchDriver"])
def test_a_package_that_cannot_be_imported_is_named_with_what_to_do(value):
    point = metadata.EntryPoint("pigeon", value, "pairlab.drivers")
    with pytest.raises(
        Unavailable, match=r"pairlab.drivers 'pigeon' of package .* cannot be loaded .*: install it again"
    ):
        entry_points.load(point)
