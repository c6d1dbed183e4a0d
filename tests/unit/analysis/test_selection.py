import pytest

from pairlab import store
from pairlab.analysis import selection
from pairlab.errors import MixedHosts
from pairlab.model.ground import Ground
from pairlab.store.dataset import load_runs
from tests.support.runs import made_up

HERE = Ground(host="A CPU, 2 CPUs", machine="0123456789ab", kernel="6.1")


@pytest.mark.parametrize(
    ("name", "other"), [("kernel", HERE._replace(kernel="6.18")), ("host", HERE._replace(host="Another CPU, 2 CPUs"))]
)
def test_runs_of_two_kernels_or_hosts_are_not_pooled_unless_these_are_told_apart(name, other, tmp_path):
    for repetition, ground in enumerate((HERE, other)):
        store.write(made_up(ground=ground, repetition=repetition), tmp_path)
    flows = load_runs(tmp_path, ground="all").flows
    with pytest.raises(MixedHosts, match=rf'^the runs come from 2 {name}s \(.*ground="newest", or tell them apart by '):
        selection.check_comparable(flows)
    selection.check_comparable(flows, [name])
    selection.check_comparable(load_runs(tmp_path).flows)  # of the newest ground alone
