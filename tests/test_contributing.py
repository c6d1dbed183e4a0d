"""What CONTRIBUTING.md and README.md tell a reader to do works as it stands there."""

import os
import re
import subprocess
import sys

from pairlab import paths
from tests.conftest import need


def example(file, beginning):
    """The one code block of a document that begins like that."""
    blocks = re.findall(r"```python\n(.*?)```", (paths.ROOT / file).read_text(), re.DOTALL)
    (found,) = [block for block in blocks if block.startswith(beginning)]
    return found


def run_python(script, tmp_path, **environment):
    environment = {**os.environ, "PAIRLAB_RUNS": str(tmp_path / "runs"), **environment}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_driver_of_the_guide_works_from_a_package_of_its_own(tmp_path, clean_host):
    need("netns")
    (tmp_path / "hub.py").write_text(example("CONTRIBUTING.md", '"""A hub'))
    package = tmp_path / "hub-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: hub\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[pairlab.drivers]\nhub = hub:Hub\n")
    script = (
        "from pairlab import Spec, measure\n"
        "from pairlab.testbed import registry\n"
        "print(*registry.drivers.names())\n"
        "run = measure(Spec(driver='hub', workload='flowgen', pairs=2, duration_s=0.5, max_skew_s=1))\n"
        "print(run.status, (run.flows['flow_bytes'] > 1e5).all())\n"
    )
    told = run_python(script, tmp_path, PYTHONPATH=str(tmp_path))
    assert told.splitlines() == ["bridge host hub macvlan ovs", "ok True"]


def test_the_python_of_the_readme_works(tmp_path, clean_host):
    need("netns", workload="flowgen")
    told = run_python(example("README.md", "from pairlab import"), tmp_path)
    assert "eth0" in told
