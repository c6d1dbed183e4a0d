"""What fault tests share. They are run one after another, by `make test-all`; test_killed by the gate.

They have folders of their own for temporary files, so that whatever stays in there is seen to be ours.
"""

import contextlib
import os
import tempfile

import docker
import pytest

from pairlab.base.threads import run_before_flows
from pairlab.testbed.audit import snapshot
from tests.conftest import need
from tests.faults import forked
from tests.faults.host_state import wait_clean
from tests.faults.in_docker import Measuring


@pytest.fixture(scope="session", autouse=True)
def folders_of_our_own(tmp_path_factory):
    """TMPDIR and Jupyter's folder for running kernels, for this process and all that it starts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("tmp")))
        patch.setattr(tempfile, "tempdir", None)  # else what it found before stays
        patch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path_factory.mktemp("jupyter")))
        yield


@pytest.fixture(scope="session")
def forking(folders_of_our_own):
    """Starts what tests.faults.forked forks from before any test looks at the host, so that it is not new to it."""
    forked.start_parent()


@pytest.fixture
def before(runs_dir):
    return snapshot.take()


@pytest.fixture
def clean(before, record_property):
    """clean(): within 5 s the host is as it was when the test began, or the test fails."""
    return lambda: record_property("clean_after_s", round(wait_clean(before), 3))


@pytest.fixture(scope="module")
def before_flows():
    """Has this process, and none that it starts, run before flows: to kill and to look when it means to."""
    run_before_flows()
    yield
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@pytest.fixture
def client():
    need("docker")
    with contextlib.closing(docker.from_env()) as client:
        yield client


@pytest.fixture
def measuring(client, before):
    """measuring(as Measuring): starts one, whose process is killed at the end if it is still there."""
    started = []

    def measuring(*arguments, **named):
        started.append(Measuring(*arguments, **named))
        return started[-1]

    yield measuring
    for each in started:
        if each.process.poll() is None:
            each.kill()
        each.process.close()
