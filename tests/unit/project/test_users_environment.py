"""What the user's environment says of other Pythons and of pip does not reach pairlab's own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pairlab import cli, paths
from tests.unit.project.test_bootstrap import bootstrap  # noqa: F401  (a fixture)


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """The environment of a user of another Python, whose modules raise where they are imported."""
    for name in ("numpy", "click", "sitecustomize", "startup"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(f'{__name__} of another Python')\n")
    ours = {"PYTHONPATH": tmp_path, "PYTHONSAFEPATH": 1, "PYTHONHOME": "/nonexistent", "PYTHONOPTIMIZE": 2}
    ours |= {"PYTHONSTARTUP": tmp_path / "startup.py", "PYTEST_PLUGINS": "of_ros", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": 1}
    return os.environ | {name: str(value) for name, value in ours.items()}


def test_recipes_of_make_have_none_of_the_users_python_variables(hostile):
    seen = "--eval=seen: ; @env"
    done = subprocess.run(["make", "-s", seen, "seen"], cwd=paths.ROOT, env=hostile, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names = [line.partition("=")[0] for line in done.stdout.splitlines()]
    assert "PATH" in names
    assert [name for name in names if name.startswith("PYTHON") or name in hostile.keys() - os.environ.keys()] == []


def test_the_command_of_a_checkout_imports_nothing_of_another_python(bootstrap, hostile, tmp_path, monkeypatch):  # noqa: F811
    command = tmp_path / "bin" / "pairlab"
    command.parent.mkdir()
    shutil.copy(Path(sys.executable).with_name("pairlab"), command)
    monkeypatch.setattr(bootstrap, "COMMAND", command)
    monkeypatch.setattr(bootstrap, "PYTHON", sys.executable)
    for _ in range(2):  # it is isolated already where set-up is repeated
        bootstrap.isolate_command()
    (tmp_path / "runs").mkdir()
    argv = [command, "ls", "--runs", tmp_path / "runs"]
    done = subprocess.run(argv, env=hostile, capture_output=True, text=True, check=False)
    assert "of another Python" not in done.stdout + done.stderr
    assert "no runs" in done.stdout + done.stderr
    assert command.read_text().count("exec") == 1


def test_what_an_isolated_command_starts_does_not_read_them_either(hostile):
    """Such as sandboxes' agents, and the kernels of JupyterLab."""
    script = (
        "import os; from pairlab import cli; cli.main.callback(); print([n for n in os.environ if n[:6] == 'PYTHON'])"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], env=hostile, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_python_that_reads_them_hands_them_on(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    cli.main.callback()
    assert os.environ["PYTHONPATH"] == "/somewhere"


#: Options of pip that send packages elsewhere, or have them refused.
ELSEWHERE = {"user": "true", "target": "/elsewhere", "prefix": "/elsewhere", "root": "/elsewhere", "dry-run": "true"}
ELSEWHERE |= {"python": "/nonexistent/python", "require-hashes": "true", "no-deps": "true", "constraint": "/elsewhere"}
#: And such as say how they are reached.
REACH = {
    "index-url": "https://mirror.example.org/simple",
    "extra-index-url": "https://a.example.org https://b.example.org",
}
REACH |= {"proxy": "http://proxy.example.org:3128", "trusted-host": "mirror.example.org", "cert": "/etc/cert.pem"}


@pytest.mark.parametrize("by", ["environment", "file", "file's section"])
def test_set_up_keeps_how_pip_reaches_packages_and_not_where_it_puts_them(by, bootstrap, monkeypatch, tmp_path):  # noqa: F811
    for name in [each for each in os.environ if each.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    settings = ELSEWHERE | REACH
    if by == "environment":
        for option, value in settings.items():
            monkeypatch.setenv(f"PIP_{option.upper().replace('-', '_')}", value)
    else:
        section = "install" if "section" in by else "global"
        lines = [f"{option} = {value}" for option, value in settings.items()]
        (tmp_path / "pip.conf").write_text("\n".join([f"[{section}]", *lines, "[download]", "timeout = 7"]))
        monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setattr(bootstrap, "PYTHON", Path(sys.executable))
    found = {name: value for name, value in bootstrap.environment().items() if name.startswith(("PIP_", "PYTHON"))}
    kept = {f"PIP_{option.upper().replace('-', '_')}": value for option, value in REACH.items()}
    assert found == kept | {"PIP_CONFIG_FILE": os.devnull}


def test_what_pip_is_told_in_the_environment_counts_more_than_its_files(bootstrap, monkeypatch, tmp_path):  # noqa: F811
    (tmp_path / "pip.conf").write_text("[global]\nproxy = http://a\ntimeout = 1\nretries = 1\n[install]\ntimeout = 2\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_PROXY", "http://b")
    monkeypatch.setattr(bootstrap, "PYTHON", Path(sys.executable))
    known = bootstrap.environment()
    assert (known["PIP_PROXY"], known["PIP_TIMEOUT"], known["PIP_RETRIES"]) == ("http://b", "2", "1")


def test_uv_keeps_its_indexes_and_certificates_and_no_other_settings(bootstrap, monkeypatch):  # noqa: F811
    kept = {"UV_DEFAULT_INDEX": "https://mirror.example.org", "UV_INDEX_OURS_PASSWORD": "x", "UV_CACHE_DIR": "/cache"}
    for name, value in (kept | {"UV_SYSTEM_PYTHON": "1", "UV_CONSTRAINT": "/elsewhere", "UV_PROJECT": "/x"}).items():
        monkeypatch.setenv(name, value)
    ours = {name: value for name, value in bootstrap.environment().items() if name.startswith("UV_")}
    assert ours == kept | {"UV_NATIVE_TLS": "1", "UV_NO_CONFIG": "1"}


def test_set_up_does_not_end_well_where_pairlab_is_not_in_the_venv(bootstrap, monkeypatch, tmp_path):  # noqa: F811
    monkeypatch.setattr(bootstrap, "COMMAND", tmp_path / ".venv" / "bin" / "pairlab")
    monkeypatch.setattr(bootstrap.subprocess, "run", lambda argv, **_: subprocess.CompletedProcess(argv, 0, ""))
    (tmp_path / ".venv").mkdir()
    with pytest.raises(SystemExit, match=r"pairlab is not there: it installed pairlab elsewhere.*\n.*make run"):
        bootstrap.install_packages()
    assert not list((tmp_path / ".venv").glob("*.stamp"))


def test_a_venv_whose_command_is_gone_is_installed_anew(bootstrap, monkeypatch, tmp_path):  # noqa: F811
    monkeypatch.setattr(bootstrap, "COMMAND", tmp_path / "pairlab")
    monkeypatch.setattr(bootstrap, "stamp_matches", lambda *_: True)
    monkeypatch.setattr(bootstrap, "step", lambda *_: (_ for _ in ()).throw(InterruptedError))
    with pytest.raises(InterruptedError):
        bootstrap.install_packages()
    (tmp_path / "pairlab").touch()
    bootstrap.install_packages()
