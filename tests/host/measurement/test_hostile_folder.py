"""A folder whose name would run something if a shell ever read it (promise: bad input)."""

from pairlab import store
from pairlab.measurement.measure import measure
from pairlab.model.spec import Spec
from tests.conftest import need
from tests.support import hostile


def test_a_run_is_measured_and_read_in_a_folder_of_a_hostile_name(tmp_path, monkeypatch):
    canary = hostile.Canary(tmp_path, monkeypatch)
    need("netns")
    root = tmp_path / hostile.ALL
    done = measure(Spec(workload="flowgen", driver="host", duration_s=0.2, interval_s=0.1), root=root)
    assert done.status != "failed"
    assert store.read(done.path).key == done.key
    assert [path.name for path in store.directories(root)] == [done.key]
    assert done.path.is_relative_to(root)
    assert not canary.sang
