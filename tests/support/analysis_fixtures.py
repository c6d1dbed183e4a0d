import matplotlib
import pytest

matplotlib.use("Agg")


@pytest.fixture
def out(tmp_path, monkeypatch):
    """A folder of its own for figures and the paper's values and tables."""
    monkeypatch.setenv("PAIRLAB_OUT", str(tmp_path / "out"))
    return tmp_path / "out"


@pytest.fixture
def closes_figures():
    """Has pyplot forget what a test drew."""
    from matplotlib import pyplot as plt

    yield
    plt.close("all")


@pytest.fixture
def origin():
    from pairlab.analysis.output.provenance import Origin

    return Origin("made-up", "runs/made-up", "", 12, "2024-05-01", "2024-05-02", "0123456789abcdef")


@pytest.fixture(scope="session")
def campaign(tmp_path_factory):
    """Two backends with three drivers, one failed flow and one invalid run in each."""
    from tests.support import synthetic

    return synthetic.write_campaign(tmp_path_factory.mktemp("runs") / "campaign")


@pytest.fixture
def ask(monkeypatch, closes_figures):
    """As question.ask, of runs that are in no folder."""
    from pairlab.analysis import question, selection
    from pairlab.errors import NoRuns
    from pairlab.store.dataset import Runs

    def answer(topic, runs, **options):
        every = tuple(runs)

        def load(root, experiment, sweep):
            mine = tuple(run for run in every if run.spec.experiment in experiment)
            if not mine:
                raise NoRuns("there are none")
            return Runs(mine, experiments=experiment)

        monkeypatch.setattr(selection, "load_runs", load)
        return question.ask(topic, "runs/made-up", **options)

    return answer
