"""In each backend, a measuring process is killed amid bring-up, amid traffic and amid teardown: nothing is left.

Once each, for the gate. What else may be killed, when, and that all is clean within 5 s, is in the other files.
"""

import signal
import subprocess
import sys

import pytest

from pairlab import Spec
from tests.conftest import need_all_of
from tests.faults.host_state import wait_clean

PHASES = ("bringing up", "measuring (s)", "taking down")
SPECS = {
    "netns": Spec(workload="flowgen", pairs=2, duration_s=0.5),
    "docker": Spec(workload="flowgen", pairs=2, duration_s=0.5, backend="docker"),
    "uml": Spec(
        workload="flowgen", pairs=2, duration_s=0.5, backend="uml", hosts=2, placement="across", driver="overlay"
    ),
}

#: Kills itself when the phase that it is given has begun and, if parts of it are counted, one of them is done.
MEASURING = """
import json, os, signal, sys
from pairlab import Spec, measure
def kill(phase, done, total):
    if phase == sys.argv[2] and (done or not total):
        os.kill(os.getpid(), signal.SIGKILL)
measure(Spec(**json.loads(sys.argv[1])), fresh=True, progress=kill)
"""


@pytest.mark.gate
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("backend", SPECS)
def test_a_measuring_process_that_is_killed_leaves_nothing(backend, phase, before):
    spec = SPECS[backend]
    need_all_of(spec)
    asked = spec.model_dump_json(exclude_defaults=True)
    done = subprocess.run([sys.executable, "-c", MEASURING, asked, phase], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    wait_clean(before, 60)
