"""The command line, run in this process."""

import pytest

from pairlab import cli
from pairlab.batch import experiments


@pytest.fixture
def pairlab(capsys, runs_dir):
    """Runs pairlab's command line in this process; returns its status, output and errors."""

    def pairlab(*words):
        with pytest.raises(SystemExit) as ended:
            cli.main(list(words), prog_name="pairlab")
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return pairlab


@pytest.fixture
def refused(pairlab, runs_dir):
    """Runs a command line that must be refused; returns its status and the one line it said."""

    def refused(*words):
        status, out, err = pairlab(*words)
        assert out == ""
        assert err.startswith("pairlab: ")
        assert err.count("\n") == 1, err
        assert not runs_dir.exists()
        return status, err.removeprefix("pairlab: ").strip()

    return refused


@pytest.fixture
def no_notebook(monkeypatch):
    """Fails the test if an experiment's notebook is executed: what is wrong must be found before."""

    def execute(*arguments, **named):
        raise AssertionError("a kernel was started")

    monkeypatch.setattr(experiments, "execute", execute)
