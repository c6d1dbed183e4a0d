"""The set-up: what is there is kept while it fits, and without a C compiler one comes from PyPI."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pairlab import paths


@pytest.fixture
def bootstrap(tmp_path, monkeypatch):
    """lib/bootstrap.py as a module, its .venv and its build in folders of the test's own."""
    spec = importlib.util.spec_from_file_location("bootstrap", paths.ROOT / "lib" / "bootstrap.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    shutil.copytree(paths.ROOT / "lib" / "flowgen", tmp_path / "flowgen", ignore=shutil.ignore_patterns("build"))
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(module, "PYTHON", tmp_path / ".venv" / "bin" / "python")
    monkeypatch.setattr(module, "FLOWGEN", tmp_path / "flowgen")
    return module


@pytest.fixture
def only(tmp_path, monkeypatch):
    """Leaves just these programs on PATH."""

    def only(*names):
        place = tmp_path / "only"
        place.mkdir()
        for name in names:
            (place / name).symlink_to(shutil.which(name))
        monkeypatch.setenv("PATH", str(place))

    return only


# --- .venv


def test_a_checkout_whose_path_is_not_ascii_is_found_in_any_locale(bootstrap, tmp_path, monkeypatch):
    checkout = tmp_path / "café au lait"
    packages = checkout / ".venv" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    sources = {"pairlab": checkout / "lib", "pairlab_some": checkout / "plugins" / "pairlab-some" / "src"}
    for name, source in sources.items():
        source.mkdir(parents=True)
        (packages / f"__editable__.{name}-0.1.0.pth").write_bytes(f"{source}\n".encode())
    monkeypatch.setattr(bootstrap, "VENV", checkout / ".venv")
    bootstrap.point_at_library()
    code = "import os, site, sys; site.addsitedir(sys.argv[1]); print([os.fsencode(path) for path in sys.path])"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, packages],
        env={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    for source in sources.values():
        assert str(os.fsencode(source)) in done.stdout


@pytest.fixture
def made(bootstrap, monkeypatch):
    """How often .venv was made; a fake, as a real one takes seconds."""
    calls = []

    def run(argv, **how):
        calls.append(argv)
        bootstrap.PYTHON.parent.mkdir(parents=True, exist_ok=True)
        bootstrap.PYTHON.unlink(missing_ok=True)
        bootstrap.PYTHON.symlink_to(sys.executable)
        return subprocess.CompletedProcess(argv, 0)

    monkeypatch.setattr(bootstrap.subprocess, "run", run)
    bootstrap.make_venv()
    assert calls == [[sys.executable, "-m", "venv", "--clear", str(bootstrap.VENV)]]
    return calls


def test_a_venv_that_fits_is_kept(bootstrap, made):
    bootstrap.make_venv()
    assert len(made) == 1


def test_a_venv_of_a_checkout_that_was_moved_is_made_anew(bootstrap, made, monkeypatch, tmp_path):
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path / "elsewhere")
    bootstrap.make_venv()
    bootstrap.make_venv()
    assert len(made) == 2


def test_a_venv_that_is_a_link_is_refused_and_what_it_leads_to_is_kept(bootstrap, made):
    elsewhere = bootstrap.VENV.rename(bootstrap.VENV.with_name("elsewhere"))
    bootstrap.VENV.symlink_to(elsewhere)
    (elsewhere / "venv.stamp").unlink()
    kept = sorted(elsewhere.rglob("*"))
    with pytest.raises(SystemExit, match="is a link to"):
        bootstrap.make_venv()
    assert sorted(elsewhere.rglob("*")) == kept != []


def test_a_venv_whose_python_is_gone_is_made_anew(bootstrap, made):
    bootstrap.PYTHON.unlink()
    bootstrap.PYTHON.symlink_to("/nonexistent/python3")
    bootstrap.make_venv()
    bootstrap.make_venv()
    assert len(made) == 2


def test_a_venv_that_was_never_finished_is_made_anew(bootstrap, made):
    (bootstrap.VENV / "venv.stamp").unlink()
    bootstrap.make_venv()
    assert len(made) == 2


# --- flowgen


def test_without_a_c_compiler_flowgen_is_built_with_the_one_from_pypi(bootstrap, only, monkeypatch):
    only("make", "rm", "mkdir", "mv")
    assert not bootstrap.has_static_compiler()
    calls = []
    monkeypatch.setattr(bootstrap, "run", lambda argv, why, env=None: calls.append((argv, env)))
    bootstrap.VENV.mkdir()
    bootstrap.build_flowgen()
    (install, _), _, (build, environment) = calls
    assert install[:4] == [str(bootstrap.PYTHON), "-m", "pip", "install"]
    assert install[-3:] == ["--require-hashes", "-r", str(paths.ROOT / "lib" / "requirements" / "cc.lock")]
    compiler = f"{bootstrap.PYTHON} -m ziglang cc -target {os.uname().machine}-linux-musl"
    assert build == ["make", "-s", "-C", str(bootstrap.FLOWGEN), f"CC={compiler}"]
    assert {Path(place) for place in environment.values()} == {bootstrap.VENV / "zig-cache"}


def test_a_c_compiler_that_does_not_link_statically_is_none(bootstrap, monkeypatch, tmp_path):
    (tmp_path / "cc").write_text("#!/bin/sh\necho 'cannot find -lc' >&2; exit 1\n")
    (tmp_path / "cc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not bootstrap.has_static_compiler()


def test_without_make_it_says_so(bootstrap, only):
    only("rm")
    with pytest.raises(SystemExit, match=r"built with make, which is not installed.*\n.*apt-get install make"):
        bootstrap.build_flowgen()


@pytest.mark.skipif(not os.environ.get("PAIRLAB_SLOW"), reason="fetches 80 MB and compiles: PAIRLAB_SLOW=1 runs it")
def test_flowgen_really_builds_with_the_compiler_from_pypi(bootstrap, only):
    only("make", "sh", "rm", "mkdir", "mv")
    bootstrap.make_venv()
    bootstrap.build_flowgen()
    built = bootstrap.FLOWGEN / "build" / "flowgen"
    assert subprocess.run([built, "version"], capture_output=True, text=True, check=True).stdout.startswith("flowgen")
    before = built.stat().st_mtime_ns
    bootstrap.build_flowgen()
    assert built.stat().st_mtime_ns == before


# --- make


def test_every_target_of_make_that_is_told_of_is_there():
    targets = set(re.findall(r"^([a-z-]+):", (paths.ROOT / "Makefile").read_text(), re.MULTILINE))
    lib = paths.ROOT / "lib"
    ours = [*paths.ROOT.glob("*.md"), *paths.ROOT.glob("docs/**/*.md"), *lib.rglob("*.py"), *lib.glob("*.sh")]
    # A command stands at the beginning of a line or a string, in backticks, or after a colon; elsewhere it is prose.
    command = re.compile(r"(?:^|[\"'`\]]|[:;] |&& )make ([a-z][a-z-]*)\b", re.MULTILINE)
    told = {(path.name, match[1]) for path in ours for match in command.finditer(path.read_text())}
    assert {("README.md", "setup"), ("host.py", "tools")} <= told
    assert [each for each in sorted(told) if each[1] not in targets] == []
