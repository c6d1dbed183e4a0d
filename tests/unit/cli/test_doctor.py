"""`pairlab doctor`, as a program."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pairlab.testbed import registry


def doctor_as_program(*words, **environment):
    command = [Path(sys.executable).with_name("pairlab"), "doctor", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.whole
def test_doctor_tells_programs_of_everything_that_can_be_chosen():
    found = json.loads(doctor_as_program("--json"))
    assert sorted(found["backends"]) == registry.backends.names()
    things = list(found["extras"].values())
    for backend in found["backends"].values():
        assert sorted(backend["drivers"]) == registry.drivers.names()
        assert sorted(backend["workloads"]) == registry.workloads.names()
        things += [backend, *backend["drivers"].values(), *backend["workloads"].values()]
    for thing in things:
        assert thing["available"] == (thing["missing"] == [])
        assert all(set(lack) == {"what", "remedy"} and all(lack.values()) for lack in thing["missing"])
        assert thing["summary"]
    assert found["host"]["cpus"] == os.cpu_count()


def test_doctor_on_a_host_with_nothing_names_what_is_missing_and_how_to_get_it():
    environment = {"PATH": "/nonexistent", "DOCKER_HOST": "unix:///nonexistent"}
    found = json.loads(doctor_as_program("--json", **environment))
    netns, docker = found["backends"]["netns"], found["backends"]["docker"]
    assert {"what": "unshare is not installed", "remedy": "sudo apt-get install util-linux"} in netns["missing"]
    assert docker["missing"][0]["what"] == "no Docker daemon answers at unix:///nonexistent"
    for backend in (netns, docker):
        assert not any(thing["available"] for thing in [backend, *backend["drivers"].values()])
    (latex,) = found["extras"]["LaTeX"]["missing"]
    assert latex["what"] == "LaTeX lacks latexmk, pdflatex, kpsewhich"
    packages = "latexmk texlive-latex-recommended texlive-pictures texlive-publishers texlive-science"
    assert latex["remedy"] == f"sudo apt-get install {packages}"
    text = doctor_as_program(**environment)
    assert "unshare is not installed: sudo apt-get install util-linux" in text
    assert "With root, make tools installs" in text
