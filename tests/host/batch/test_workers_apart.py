"""A sweep that two workers share, in namespaces of their own, each with hosts and a Docker daemon of its own."""

import contextlib
import json
import os
import subprocess

import docker
import pytest

from pairlab.base import credentials
from pairlab.batch import runner, sweep_file
from pairlab.store.dataset import load_runs
from pairlab.testbed.contracts import no_progress
from pairlab.testbed.docker import image
from tests.conftest import need
from tests.support import dask_hosts
from tests.support.dask_workers import ROOT

SWEEP = """
name: apart
repetitions: 2
parameters: {workload: flowgen, duration_s: 0.5, interval_s: 0.5, max_foreign_cpu: 1.0, max_skew_s: 2.0}
experiments:
  throughput:
    - {driver: bridge, pairs: 2, backend: [netns, docker]}
  networks:
    - {driver: nat, hosts: 2, placement: across, backend: [netns, docker]}
"""


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0 or os.cpu_count() == 1, reason="needs root, and two CPUs")
def test_two_workers_with_hosts_and_docker_of_their_own_measure_a_sweep(tmp_path, clean_host):
    need("docker")
    archive, file, runs = tmp_path / "image.tar", tmp_path / "apart.yaml", tmp_path / "runs"
    with contextlib.closing(docker.from_env()) as client:
        image.ensure(client, no_progress)
        with archive.open("wb") as content:
            content.writelines(client.images.get(image.tag()).save(named=True))
    file.write_text(SWEEP)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PAIRLAB_RUNS": str(runs)}
    environment |= {credentials.VARIABLE: str(tmp_path / "scheduler.pem")}
    done = subprocess.run(
        dask_hosts.command(file, archive), env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[-1]["done"] == 8, events[-1]
    found = load_runs(runs, environment="all")
    assert {run.key for run in found} == {spec.key for spec in runner.cells(sweep_file.load(file))}
    measured_by = {(run.spec.repetition, run.environment.host) for run in found}
    assert len(measured_by) == len({host for _, host in measured_by}) == 2  # a block stays on one host
    assert all(run.flows["throughput_bps"].gt(0).all() for run in found)
