"""JupyterLab as `make lab` starts it, in a checkout of the test's own."""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Collection
from pathlib import Path

import psutil

from pairlab import paths, store
from pairlab.model.records import Run

PATIENCE_S = 90
#: What a kernel's command line has.
KERNEL = "ipykernel_launcher"
#: Of a checkout, what a test changes or makes anew; the rest is this one's.
_OWN = {".git", ".cache", "notebooks", "runs", "figures", "paper"}


def checkout(place: Path) -> Path:
    """A checkout for a test: notebooks of its own, no runs but the reference, and all else by reference."""
    place.mkdir()
    for each in paths.ROOT.iterdir():
        if each.name not in _OWN:
            (place / each.name).symlink_to(each)
    copy_notebooks(place)
    (place / "runs").mkdir()
    (place / "runs" / "reference").symlink_to(paths.REFERENCE)
    return place


def copy_notebooks(place: Path) -> None:
    """In the place of those that are there."""
    ignored = shutil.ignore_patterns(".ipynb_checkpoints")
    shutil.copytree(paths.NOTEBOOKS, place / "notebooks", ignore=ignored, dirs_exist_ok=True)


class Lab:
    """A server that runs.

    root: its checkout; address: what it printed for the browser, with the token; flowgen: the generator that it uses.
    """

    def __init__(self, place: Path):
        self.root = checkout(place / "checkout")
        self.flowgen = Path(shutil.copy(paths.flowgen(), place / "flowgen"))
        self._log = place / "log"
        environment = {
            **os.environ,
            "PAIRLAB_STUDY": str(self.root),
            "PAIRLAB_RUNS": str(self.root / "runs"),
            "PAIRLAB_FLOWGEN": str(self.flowgen),
            "JUPYTERLAB_SETTINGS_DIR": str(place / "settings"),
            "IPYTHONDIR": str(place / "ipython"),
            **{f"JUPYTER_{kind}_DIR": str(place / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")},
        }
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pairlab", "lab", "--no-browser", "--ServerApp.port=0"],
                cwd=self.root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.address = self._wait_for_address()

    @property
    def log(self) -> str:
        return self._log.read_text()

    def api(self, method: str, path: str, body: object = None):
        """The answer of Jupyter's REST API, as JSON; None where it is empty."""
        base, token = self.address.partition("/lab/workspaces")[0], self.address.rpartition("token=")[2]
        request = urllib.request.Request(
            f"{base}/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {token}"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            text = response.read()
        return json.loads(text) if text else None

    def end_kernels(self) -> None:
        """Shuts down what runs."""
        for session in self.api("GET", "api/sessions"):
            self.api("DELETE", f"api/sessions/{session['id']}")

    def kernel_pids(self) -> set[int]:
        """The processes of its kernels."""
        children = psutil.Process(self._process.pid).children()
        return {child.pid for child in children if KERNEL in " ".join(_words(child))}

    def wait_for_end(self, pids: Collection[int]) -> None:
        """Comes back when none of these is there any more."""
        deadline = time.monotonic() + PATIENCE_S
        while left := [pid for pid in pids if psutil.pid_exists(pid)]:
            assert time.monotonic() < deadline, f"processes that still run: {left}"
            time.sleep(0.02)

    def restore_notebooks(self) -> None:
        """As they are in git: JupyterLab saves them by and by, with what was run."""
        copy_notebooks(self.root)

    def runs(self) -> list[Run]:
        """What is stored; empty where there is nothing."""
        return [store.read(place) for place in store.directories(self.root / "runs")]

    def forget_runs(self) -> None:
        """Empties the store."""
        for place in store.directories(self.root / "runs"):
            shutil.rmtree(place)

    def wait_for_runs(self, count: int = 1) -> list[Run]:
        """The runs, once there are so many."""
        deadline = time.monotonic() + PATIENCE_S
        while len(found := self.runs()) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} runs are stored"
            time.sleep(0.05)
        return found

    def end(self) -> None:
        """Ends it, and all that it runs."""
        self._process.terminate()
        try:
            self._process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _wait_for_address(self) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while not (addresses := [word for word in self.log.split() if word.startswith("http://")]):
            assert self._process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.05)
        return addresses[0]


def _words(process: psutil.Process) -> list[str]:
    """Its command line; empty when it is gone."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []
