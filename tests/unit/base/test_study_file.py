"""pairlab.toml: what a study adds to pairlab, and whose it is."""

import os
import subprocess
import sys

import pytest

#: Uses paths, which are decided once, so each of these is a process of its own.
ASKED = """
from pairlab import paths
from pairlab.testbed import registry
print(paths.STUDY, paths.runs())
try:
    print("hub" in registry.drivers.names() and registry.drivers.get("hub").summary)
except Exception as error:
    print(type(error).__name__, error)
"""
HUB = """
from pairlab.testbed.contracts import NetworkDriver
class Hub(NetworkDriver):
    name, summary = "hub", "floods"
"""


@pytest.fixture
def study(tmp_path):
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "hub.py").write_text(HUB)
    (tmp_path / "deep" / "down").mkdir(parents=True)
    (tmp_path / "pairlab.toml").write_text('[plugins.drivers]\nhub = "hub:Hub"\n')
    return tmp_path


def asked(folder, **variables):
    unset = ("PAIRLAB_STUDY", "PAIRLAB_RUNS", "PAIRLAB_OUT")
    environment = {name: value for name, value in os.environ.items() if name not in unset} | variables
    done = subprocess.run([sys.executable, "-c", ASKED], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_study_is_the_next_folder_with_the_file_and_its_plugins_are_there(study):
    assert asked(study / "deep" / "down") == [f"{study} {study}/runs", "floods"]
    assert asked("/", PAIRLAB_STUDY=str(study)) == [f"{study} {study}/runs", "floods"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('[plugins.drivers]\nhub = "hub:Tub"\n', "Unavailable pairlab.drivers 'hub' of the study cannot be loaded"),
        ('[plugins.drivers]\nhub = "hub"\n', '[plugins.drivers]: each is NAME = "module:Class"'),
        ('[plugins.driver]\nhub = "hub:Hub"\n', "[plugins.driver]: the kinds are drivers, workloads"),
        ("[image]\npackages = 3\n", "[image] has packages only"),
        ("[imag]\n", "the tables [image], [plugins.KIND] and [workloads.NAME] only, not 'imag'"),
        ("[image\n", "pairlab.toml cannot be read"),
    ],
)
def test_what_is_wrong_in_the_file_is_said(study, content, why):
    (study / "pairlab.toml").write_text(content)
    assert why in asked(study)[1]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_another_users_file_above_the_folder_decides_nothing(study):
    os.chown(study / "pairlab.toml", 12345, -1)
    assert asked(study / "deep")[1].startswith(f"BadInput {study}/pairlab.toml is another user's (uid 12345)")
    assert asked(study / "deep", SUDO_UID="12345")[1] == "floods"
