"""What tests share: a store of their own, and proof that nothing stays on the host."""

import functools
import itertools
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support import evidence, host

# What is imported here is imported by each process of the tests, also by the one that only hands them out.
sys.modules.setdefault("rfc3987_syntax", None)  # as pairlab.batch.execute does

TESTS = Path(__file__).parent

pytest_plugins = ["tests.support.analysis_fixtures", "tests.support.shared"]

#: Properties are held by what they say, on a machine of any speed, and by the same examples each time. `search`, which
#: `make soak` does, looks for others.
ANY_MACHINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("pairlab", ANY_MACHINE, derandomize=True)
settings.register_profile("search", ANY_MACHINE, max_examples=1000)
settings.load_profile("pairlab")


#: Of tests side by side, these files begin, in this order: one that takes long would end alone if it began last.
LONGEST = (
    "notebooks/test_questions.py",
    "notebooks/test_paper.py",
    "unit/batch/test_kernels.py",
    "unit/analysis/figures/test_figures.py",
    "unit/analysis/claims/test_claims.py",
    "unit/analysis/claims/test_sweeps.py",
    "unit/project/test_git_filters.py",
)


#: Of the whole, but for what is marked for the gate: a slow machine, or what others do on it, may fail these tests; or
#: they take minutes.
OF_THE_WHOLE = (
    TESTS / "browser",
    TESTS / "faults",
    TESTS / "host/measurement",
    TESTS / "host/project/test_extending.py",
    *(TESTS / f"host/testbed/test_{name}.py" for name in ("limits", "neighbours", "nobody_gets_in", "shaping")),
    *(TESTS / f"host/testbed/test_{name}.py" for name in ("traffic", "uml", "workloads")),
)


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by marks
def pytest_collection_modifyitems(items):
    rank = {TESTS / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))
    for item in items:
        if not item.get_closest_marker("gate") and any(item.path.is_relative_to(each) for each in OF_THE_WHOLE):
            item.add_marker(pytest.mark.whole)


@pytest.fixture(scope="session", autouse=True)
def _where_it_was_measured(record_testsuite_property):
    record_testsuite_property("host", evidence.this_host())


@pytest.fixture
def record_property(record_property):
    """As pytest's, of any number: NumPy's cannot be sent between the processes of parallel tests."""
    return lambda name, value: record_property(name, str(value))


@pytest.fixture
def runs_dir(tmp_path, monkeypatch):
    """A store of the test's own."""
    place = tmp_path / "runs"
    monkeypatch.setenv("PAIRLAB_RUNS", str(place))
    return place


@pytest.fixture
def sockets_folder():
    """A folder whose path is short, whoever tests: that of a Unix socket has at most 107 bytes (unix(7))."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        yield Path(place)


@pytest.fixture
def any_host(monkeypatch):
    """Lets sweeps measure every cell, whatever this host has: where an executor makes up what it measures."""
    from pairlab.measurement import measure

    monkeypatch.setattr(measure, "check", lambda spec: None)


@pytest.fixture
def clean_host():
    """Fails the test if it leaves anything on the host."""
    before = host.snapshot()
    yield before
    assert host.settled(before), f"left on the host: {host.difference(before)}"


@pytest.fixture
def changed_tool(monkeypatch):
    """changed_tool(method, change): has that method of a workload return change(what it returns, *its arguments)."""
    from pairlab.testbed import registry

    def changed_tool(method, change, *, workload="flowgen"):
        kind = registry.workloads.get(workload)
        real = getattr(kind, method)
        monkeypatch.setattr(kind, method, lambda self, *arguments: change(real(self, *arguments), *arguments))

    return changed_tool


@pytest.fixture
def begins_late(changed_tool):
    """Has a tool's clients begin so many seconds after their release, all but the first pair's."""

    def begins_late(delay_s, **of):
        late = ["sh", "-c", f'sleep {delay_s}; exec "$@"', "sh"]
        changed_tool("client", lambda argv, pair, *_: [*late, *argv] if pair.index else argv, **of)

    return begins_late


def backend_and_driver(*, hosts=1):
    """Every driver of every_backend_and_driver that this machine has, as parameters.

    What the others lack is said once, by tests/host/testbed/test_testbed.py.
    """
    return [each for each in every_backend_and_driver(hosts=hosts) if not missing_for(*each, hosts)]


def at_once():
    """The backends whose testbeds are there at once; the one that boots kernels has tests/host/testbed/test_uml.py."""
    from pairlab.testbed import registry

    return [name for name in registry.backends.names() if registry.backends.get(name).host_kind == "namespace"]


def every_backend_and_driver(*, hosts):
    """Every driver that carries traffic over so many hosts, with every backend that has it."""
    from pairlab.testbed import registry

    kinds = {name: registry.drivers.get(name) for name in registry.drivers.names()}
    return [
        (backend, driver)
        for backend in at_once()
        for driver, kind in kinds.items()
        if kind.carries_traffic
        and (kind.spans_hosts if hosts > 1 else not kind.needs_hosts)
        and backend not in kind.absent_in
    ]


@functools.cache
def missing_for(backend, driver, hosts):
    """What this machine lacks for that driver on so many hosts, in words; empty: nothing."""
    from pairlab.model.spec import Spec

    several = {"hosts": hosts, "pairs": hosts, "placement": "spread"} if hosts > 1 else {}
    return missing(Spec(backend=backend, driver=driver, workload="flowgen", **several))


def with_links():
    """The drivers whose endpoints have a link each, on one host, in namespaces, of those that this machine has."""
    from pairlab.testbed import registry

    there = [driver for backend, driver in backend_and_driver() if backend == "netns"]
    return [name for name in there if registry.drivers.get(name).has_links()]


def mostly_whole(values, *, but, only=None):
    """These as parameters; all are of the whole, but those; where `only` is given, the others are for `make soak`.

    A value of several parameters is a tuple.
    """
    several = [value if isinstance(value, tuple) else (value,) for value in values]
    kept = [value if isinstance(value, tuple) else (value,) for value in but]

    def marks(each):
        return () if each in kept else pytest.mark.whole if only is None or each in only else pytest.mark.long

    return [pytest.param(*each, marks=marks(each)) for each in several]


def diagonal(*axes):
    """All combinations of these values, as parameters; all but a diagonal, on which each value is, are for `make soak`.

    A kill at one more point of one more network is another look for the same fault.
    """
    kept = {tuple(axis[at % len(axis)] for axis in axes) for at in range(max(map(len, axes)))}
    return [pytest.param(*each, marks=() if each in kept else pytest.mark.long) for each in itertools.product(*axes)]


def any_backend():
    """All of them, as parameters of a test that asks nothing of the backend itself; of the whole, all but netns."""
    return mostly_whole(at_once(), but=["netns"])


def _at_hand(combination):
    backend, driver, *workload = combination
    return (backend == "netns" or driver == "bridge") and workload in ([], ["flowgen"])


def every_driver(*, isolated=False):
    """Every driver on one host in every backend, as parameters; of the whole, all in Docker but the bridge.

    isolated: those with links of their own.
    """
    from pairlab.testbed import registry

    found = [each for each in backend_and_driver() if registry.drivers.get(each[1]).has_links() or not isolated]
    return mostly_whole(found, but=[each for each in found if _at_hand(each)])


def combinations():
    """Workloads over networks, as parameters: each workload over one network in each backend, and over the one whose
    endpoints share a namespace; each network with one workload. The two do not know each other (import-linter), so that
    they meet in nothing else.

    Of the whole but: every driver in netns, the bridge in Docker, and every workload over netns' bridge.
    """
    from pairlab.testbed import registry

    every = [
        (*where, workload)
        for where in backend_and_driver()
        for workload in registry.workloads.names()
        if registry.workloads.get(workload).sends_traffic
        if where[1] == "bridge" or where == ("netns", "host") or workload == "flowgen"
        if not (registry.workloads.get(workload).one_client and registry.drivers.get(where[1]).only_own_partner)
    ]
    return mostly_whole(every, but=[each for each in every if each[:2] == ("netns", "bridge") or _at_hand(each)])


def need(backend, driver="bridge", workload="flowgen"):
    """Skips the test, with the reason, where this machine cannot do it."""
    from pairlab.model.spec import Spec

    need_all_of(Spec(backend=backend, driver=driver, workload=workload))


def need_all_of(spec):
    """Skips the test, with the reasons, where this machine lacks something that the spec needs."""
    if lacks := missing(spec):
        pytest.skip(lacks)


def missing(spec):
    """What this machine lacks for the spec, in words; empty: nothing."""
    from pairlab.testbed import plans

    return "; ".join(str(lack) for found in plans.layout(spec).missing().values() for lack in found)
