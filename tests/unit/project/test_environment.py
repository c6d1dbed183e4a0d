"""What is installed: one list of names and bounds in three files, and nothing of any one machine in the repository."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version
from rattler import MatchSpec

from pairlab import paths
from tests import lowest

PYPROJECT = tomllib.loads((paths.ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
LOCKS = sorted([*(paths.ROOT / "lib" / "requirements").glob("*.lock"), *paths.ROOT.glob("plugins/*/*.lock")])
#: What conda calls packages of PyPI, where it is something else.
ON_CONDA = {"docker": "docker-py", "duckdb": "python-duckdb", "playwright": "playwright-python"}
ON_CONDA |= {name: name.replace("-", "_") for name in ("jupyter-client", "jupyter-core", "jupyter-server")}
ON_CONDA |= {"jupyterlab-server": "jupyterlab_server"}
#: Not packages of PyPI.
CONDA_ONLY = {"python", "c-compiler", "make"}


def requirements(*kinds):
    """What is asked for at run time, in these groups, and in these extras: {name: Requirement}."""
    told = list(PROJECT["dependencies"])
    for kind in kinds:
        told += group(kind) if kind in PYPROJECT["dependency-groups"] else PROJECT["optional-dependencies"][kind]
    return {requirement.name: requirement for requirement in map(Requirement, told)}


def group(name):
    for each in PYPROJECT["dependency-groups"][name]:
        if isinstance(each, str):
            yield each
        else:
            yield from group(each["include-group"])


def locked(lock):
    """The packages in a lock file: {name: [(version, marker)]}."""
    found = {}
    for line in lock.read_text().splitlines():
        if match := re.fullmatch(r"([a-z0-9][a-z0-9._-]*)==(\S+?)(?: ; (.+?))?(?: \\)?", line):
            found.setdefault(match[1], []).append((Version(match[2]), match[3]))
    return found


# --- conda's list and pip's


def test_conda_and_pip_ask_for_the_same_packages_with_the_same_bounds():
    told = yaml.safe_load((paths.ROOT / "environment.yml").read_text())
    specs = [MatchSpec(each, strict=True) for each in told["dependencies"]]
    conda = {spec.name.normalized: str(spec.version) for spec in specs if spec.name.normalized not in CONDA_ONLY}
    pip = {ON_CONDA.get(name, name): str(each.specifier) for name, each in requirements("dev").items()}
    assert conda == pip


def test_each_package_has_a_lower_bound_and_no_other():
    """Of which tests/lowest.py tries all together."""
    assert {name: str(each.specifier) for name, each in requirements("dev").items() if not each.specifier} == {}
    operators = {bound.operator for each in requirements("dev").values() for bound in each.specifier}
    assert operators == {">="}
    assert lowest.oldest_python() == PROJECT["requires-python"].removeprefix(">=") == "3.11"


# --- the locks


def test_the_lock_holds_every_package_we_ask_for_in_a_version_we_allow():
    of_pairlab, of_mpi = paths.ROOT / "lib" / "requirements", paths.ROOT / "plugins" / "pairlab-mpi"
    mpi = tomllib.loads((of_mpi / "pyproject.toml").read_text())["project"]["optional-dependencies"]["mpi4py"]
    for lock, wanted in (
        (of_pairlab / "pairlab.lock", requirements("dev")),
        (of_pairlab / "cc.lock", {"ziglang": requirements("cc")["ziglang"]}),
        (of_mpi / "mpi.lock", {requirement.name: requirement for requirement in map(Requirement, mpi)}),
    ):
        versions = locked(lock)
        for name, requirement in wanted.items():
            assert name in versions, f"{name} is not in {lock.name}"
            for version, _ in versions[name]:
                assert version in requirement.specifier


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_holds_names_versions_markers_and_hashes_and_nothing_else(lock):
    package = r"[a-z0-9][a-z0-9._-]*==[0-9a-z.!+]+( ; [A-Za-z_0-9.'\"<>=!*() ]+?)? \\"
    allowed = re.compile(rf"{package}|    --hash=sha256:[0-9a-f]{{64}}( \\)?|    #( via)?( +[a-z0-9._-]+( \(.+\))?)?")
    for number, line in enumerate(lock.read_text().splitlines(), 1):
        assert allowed.fullmatch(line), f"{lock.name}:{number}: {line}"
        assert "://" not in line


# --- the repository


def named(pattern):
    """What of the repository's files, and of those that may become its files, matches the pattern (git-grep(1))."""
    itself = f":!{Path(__file__).relative_to(paths.ROOT)}"
    words = ["git", "-C", str(paths.ROOT), "grep", "--untracked", "--text", "--only-matching", "-E", "-e", pattern]
    try:
        done = subprocess.run([*words, "--", itself], capture_output=True)
    except OSError:
        pytest.skip("which files are the repository's, only git knows: apt-get install git")
    if done.returncode > 1:
        assert b"repository" in done.stderr, done.stderr  # there is none here, or it is somebody else's
        pytest.skip("which files are the repository's, only git knows: run this in a clone")
    return done.stdout.decode(errors="replace").splitlines()


def test_what_a_file_names_is_found():
    assert len(named("^name = .pairlab.$")) == 1


def test_no_file_names_a_package_index():
    assert named(r"pypi\.org|pythonhosted\.org|--(extra-)?index-url|--find-links|--trusted-host") == []


def test_no_file_names_a_place_of_one_machine():
    assert named(r"/(work|root|home/\w+)/[\w.]+") == []


def test_no_file_holds_a_key():
    assert named(r"-----BEGIN [A-Z ]*PRIVATE KEY|gh[pousr]_[A-Za-z0-9]{30,}|AKIA[0-9A-Z]{16}") == []
