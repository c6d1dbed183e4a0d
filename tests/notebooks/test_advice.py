from pairlab import store
from tests.support import synthetic
from tests.support.executed import Executed


def test_the_notebook_answers_by_what_there_is_and_writes_the_sweep_for_the_rest(tmp_path):
    runs = tmp_path / "runs"
    for repetition in range(4):
        for driver, late_s in (("nat", 80e-6), ("overlay", 160e-6), ("process", 70e-6)):
            late_s *= 1 + repetition / 100
            asked = {"hosts": 2, "placement": "across", "repetition": repetition, "experiment": "latency"}
            store.write(synthetic.transacting({late_s / 9: 98, late_s: 2}, driver=driver, **asked), runs)
    file = tmp_path / "fill.yaml"
    done = Executed("31-advice", runs, tmp_path, sweep_file=str(file))
    assert "nat has the shortest p99 latency, 81.2 [" in done.told("answer")
    assert "measured with netns, 1 pair, 2 hosts across, rr, TCP cubic, 1 s each, not as asked" in done.told("answer")
    assert "Worse for sure in p99 latency than another network: overlay." in done.told("answer")
    assert "Ruled out: " in done.told("answer")
    assert file.exists()
    assert "  networks:\n" in file.read_text()


def test_without_runs_the_notebook_says_what_to_measure(tmp_path):
    done = Executed("31-advice", tmp_path, tmp_path)
    assert "no run says which network is best" in done.told("answer")
    assert "  latency:\n" in done.told("missing")
