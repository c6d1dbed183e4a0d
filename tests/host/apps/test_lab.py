"""Nobody gets in: `make lab` listens on loopback only, and does nothing for whoever has no token.

Whatever Jupyter's own configuration of this user says.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

from pairlab import paths

PATIENCE_S = 90

# What people copy from the net, to be rid of the token.
CARELESS = """
c = get_config()
c.ServerApp.ip = "0.0.0.0"
c.ServerApp.token = ""
c.ServerApp.password = ""
c.IdentityProvider.token = ""
c.ServerApp.allow_remote_access = True
c.ServerApp.allow_unauthenticated_access = True
c.LabApp.ip = "0.0.0.0"
"""


def status_of(url, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=PATIENCE_S) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


def read_whole(file, deadline):
    """The file as JSON; it may be written just now."""
    while True:
        try:
            return json.loads(file.read_text())
        except ValueError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def listening_sockets(process):
    """Those of a process that may have ended meanwhile: then none."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return [each for each in process.net_connections() if each.status == psutil.CONN_LISTEN]
    return []


@pytest.fixture
def lab(tmp_path):
    """A running JupyterLab, as its runtime file describes it."""
    config = tmp_path / "config"
    config.mkdir()
    for name in ("jupyter_server_config.py", "jupyter_lab_config.py"):
        (config / name).write_text(CARELESS)
    (tmp_path / "runtime").mkdir()
    environment = {
        **{name: value for name, value in os.environ.items() if name != "JUPYTER_TOKEN"},
        "JUPYTER_CONFIG_DIR": str(config),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
        "JUPYTER_DATA_DIR": str(tmp_path / "data"),
    }
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "pairlab", "lab", "--no-browser", "--ServerApp.port=0"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not (found := list((tmp_path / "runtime").glob("jpserver-*.json"))):
            assert process.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.1)
        yield process, read_whole(found[0], deadline), found[0]
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def test_make_lab_starts_it():
    done = subprocess.run(["make", "--dry-run", "lab"], cwd=paths.ROOT, capture_output=True, text=True, check=True)
    assert re.search(r"^\.venv/bin/pairlab lab\s*$", done.stdout, re.MULTILINE)


@pytest.mark.whole
def test_the_lab_is_on_loopback_and_for_those_who_have_its_token(lab):
    process, told, runtime_file = lab
    api = f"http://127.0.0.1:{told['port']}/api"
    token = told["token"]
    assert len(token) >= 32

    # Which places refuse: with no token, with a wrong one, from a page of another site.
    for path in ("contents", "sessions", "kernels", "terminals", "contents/experiments"):
        assert status_of(f"{api}/{path}") == 403, path
        assert status_of(f"{api}/{path}?token=") == 403, path
        assert status_of(f"{api}/{path}", Authorization="token wrong") == 403, path
        assert status_of(f"{api}/{path}", Authorization=f"token {token}", Host="evil.example") == 403, path
    assert status_of(f"{api}/contents", Authorization=f"token {token}") == 200

    # Where it listens, and what other users of this host can see.
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    listening = [each for one in family for each in listening_sockets(one)]
    assert {each.laddr.ip for each in listening} == {"127.0.0.1"}
    assert told["port"] in {each.laddr.port for each in listening}
    assert token not in " ".join(Path(f"/proc/{process.pid}/cmdline").read_text().split("\0"))
    assert runtime_file.stat().st_mode & 0o077 == 0

    process.send_signal(signal.SIGTERM)
    process.wait(timeout=PATIENCE_S)
    assert not runtime_file.exists()
    assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in family)
