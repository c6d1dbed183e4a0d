"""`python -m tests.lowest [option of pytest ...]`: the unit tests with the lowest versions that pyproject.toml allows.

uv resolves them for the oldest Python that pairlab runs on, as later ones came after these versions, and installs them
into .cache/lowest. What they themselves need has its newest version, so that their deprecations are none of ours.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.__main__ import OF_THE_GATE

ROOT = Path(__file__).parents[1]
VENV = ROOT / ".cache" / "lowest"
PYTHON = VENV / "bin" / "python"
PROJECT = ROOT / "pyproject.toml"
OURS = [ROOT, *(each.parent for each in sorted(ROOT.glob("plugins/*/pyproject.toml")))]
TESTS = ["tests/unit", "plugins", *OF_THE_GATE, "-n", "auto", "-p", "no:nbval", "-p", "no:cacheprovider"]
DEPRECATIONS = ("DeprecationWarning", "PendingDeprecationWarning", "FutureWarning")
DEPRECATIONS += ("jupyter_events.utils.JupyterEventsVersionWarning",)  # of jupyter-server's own schemas


def oldest_python() -> str:
    return tomllib.loads(PROJECT.read_text())["project"]["requires-python"].removeprefix(">=")


def make() -> None:
    """Makes the environment. Ends with the reason where that fails."""
    of_setup = ROOT / ".venv" / "uv" / "bin" / "uv"
    uv = str(of_setup) if of_setup.exists() else shutil.which("uv")
    if uv is None:
        sys.exit("tests.lowest resolves versions with uv, which is neither in .venv nor on PATH: make setup")
    editable = [word for each in OURS for word in ("--editable", str(each))]
    install = [uv, "pip", "install", "--quiet", "--python", str(PYTHON)]
    for argv in (
        [uv, "venv", "--quiet", "--clear", "--seed", "--no-python-downloads", "--python", oldest_python(), str(VENV)],
        [*install, "--resolution", "lowest-direct", "--group", "dev", "--requirements", str(PROJECT)],
        [*install, "--no-deps", "--no-build-isolation", *editable],
    ):
        environment = os.environ | {"UV_NATIVE_TLS": "1", "UV_NO_CONFIG": "1"}  # as lib/bootstrap.py
        if subprocess.run(argv, cwd=ROOT, env=environment, check=False).returncode:
            sys.exit("tests.lowest: the environment could not be made; the reason stands above")


def main(options: list[str]) -> int:
    make()
    ignored = [word for each in DEPRECATIONS for word in ("-W", f"ignore::{each}")]
    report = f"--junit-xml={VENV.with_suffix('.xml')}"
    return subprocess.run([str(PYTHON), "-m", "pytest", *TESTS, *ignored, report, *options], cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
