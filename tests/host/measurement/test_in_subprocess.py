"""A measurement in a process of its own: what comes back of it, how it is stopped, and what is left when it dies."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime

import pytest

from pairlab import Spec, store
from pairlab.errors import BadSpec, HostBusy, MeasurementFailed, StoreError
from pairlab.measurement import in_subprocess
from pairlab.measurement.in_subprocess import attend, attend_async
from pairlab.model.records import Run
from pairlab.testbed.host import lock
from tests.conftest import need
from tests.support.attended import LONG, SPEC, cancelled_at, no_process_left, playing, ways, ways_in_turn

#: Is seen at work more than once, whatever three seconds the machine does without us.
SEEN = SPEC.replace(duration_s=4.0)

pytestmark = pytest.mark.usefixtures("runs_dir")


@pytest.mark.whole
@ways_in_turn
def test_the_run_that_was_stored_comes_back_and_phases_and_samples_on_the_way(way, runs_dir, clean_host):
    need("netns")
    phases, samples, threads = [], [], set()

    def on_phase(*phase):
        phases.append(phase)
        threads.add(threading.get_ident())

    run = way(SEEN, on_phase=on_phase, on_sample=samples.append)
    assert run.path == store.find(SEEN, runs_dir).path
    assert list(run.flows["status"]) == ["ok", "ok"]
    own = [name for name in dict.fromkeys(name for name, *_ in phases) if not name.startswith("waiting for process")]
    expected = ["starting", "bringing up", "servers listening", "clients ready", "measuring (s)", "taking down"]
    assert own == expected
    measured_s = [done for name, done, total in phases if name == "measuring (s)" and total == 4.0]
    assert measured_s[0] == 0
    assert 0.5 <= measured_s[1] <= 4
    assert threads == {threading.get_ident()}
    assert {len(each.client_bps) for each in samples} == {2}
    assert any(min(each.client_bps) > 1e6 for each in samples)


@pytest.mark.whole
@ways_in_turn
def test_a_run_that_counts_is_not_measured_again_unless_asked(way, tmp_path):
    need("netns")
    root = tmp_path / "elsewhere"
    asked = SPEC.replace(duration_s=0.5)
    kept = store.write(Run(asked, "ok", measured_at=datetime.now(UTC)), root)
    phases = []
    found = way(asked, root=root, on_phase=lambda *phase: phases.append(phase[0]))
    assert (found.path, found.measured_at) == (kept.path, kept.measured_at)
    assert phases[-1].startswith("from the store, measured")
    fresh = way(asked, root=root, fresh=True)
    assert fresh.measured_at > kept.measured_at
    assert fresh.path != kept.path  # the older run stays, as a repetition
    assert {place.name for place in store.directories(root)} == {kept.path.name, fresh.path.name}


@ways
@pytest.mark.parametrize(
    ("spec", "error", "words"),
    [
        (Spec.stored(SPEC.model_dump() | {"driver": "bridg"}), BadSpec, "no driver 'bridg'; did you mean 'bridge'?"),
        (SPEC.replace(pairs=600), BadSpec, "'bridge' can have at most 511"),
    ],
    ids=["unknown name", "bad spec"],
)
def test_an_error_comes_back_as_what_it_is(way, spec, error, words, runs_dir):
    with pytest.raises(error, match=words):
        way(spec)
    assert not runs_dir.exists()


def test_a_place_that_takes_no_run_is_told_as_such(tmp_path):
    need("netns")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        attend(SPEC.replace(duration_s=0.5), root=tmp_path / "file" / "runs")


@ways_in_turn
def test_another_measurement_is_waited_for_and_named_or_refused(way):
    need("netns")
    with lock.measuring():
        with pytest.raises(HostBusy, match=f"process {os.getpid()} of "):
            way(SPEC, wait=False)
        waited = []

        class Enough(Exception):
            pass

        def on_phase(name, *_):
            if name.startswith("waiting for process"):
                waited.append(name)
                raise Enough

        with pytest.raises(Enough):
            way(SPEC, on_phase=on_phase)
    assert waited[0].startswith(f"waiting for process {os.getpid()} of ")


@pytest.mark.whole
@ways_in_turn
def test_an_error_of_who_looks_on_ends_the_measurement_and_leaves_nothing(way, runs_dir, clean_host):
    need("netns")

    def fail(sample):
        raise ZeroDivisionError("in the drawing")

    with pytest.raises(ZeroDivisionError, match="in the drawing"):
        way(LONG, on_sample=fail)
    assert no_process_left(clean_host)
    assert not list(runs_dir.glob("throughput/*"))


def test_cancelling_leaves_the_host_clean_and_no_half_run(runs_dir, clean_host):
    """At any other moment: tests/faults."""
    need("netns")
    cancelled_at("measuring (s)")
    assert no_process_left(clean_host)
    assert not list(runs_dir.glob("throughput/*"))


@ways
def test_what_a_child_complained_of_before_it_died_is_told_in_the_end(way, monkeypatch):
    playing(monkeypatch, "import sys; print('x' * 5000 + 'out of luck', file=sys.stderr); sys.exit(3)")
    with pytest.raises(MeasurementFailed, match=r"ended with status 3.*x{1900}out of luck$") as caught:
        way(SPEC)
    assert len(str(caught.value)) < 2500


@ways
def test_what_is_printed_before_the_child_has_its_output_for_itself_is_passed_over(way, monkeypatch):
    playing(monkeypatch, """print('hello'); print('[1]'); print('{"error": ["HostBusy", "taken"]}')""")
    with pytest.raises(HostBusy, match="taken"):
        way(SPEC)


@ways
def test_a_sample_of_thousands_of_clients_is_one_line_like_any_other(way, monkeypatch):
    sample = {"elapsed_s": 0.5, "total_s": 1.0, "client_bps": [1e9 / 3] * 5000, "total_bps": None}
    line = json.dumps({"sample": {**sample, "usr": 0.0, "sys": 0.0, "softirq": 0.0}})
    playing(monkeypatch, f"""for _ in range(20): print('''{line}''')\nprint('{{"error": ["BadSpec", "end"]}}')""")
    seen = []
    with pytest.raises(BadSpec, match="end"):
        way(SPEC, on_sample=seen.append)
    assert len(seen) == 20
    assert seen[-1].client_bps == (1e9 / 3,) * 5000


@ways
def test_a_warning_of_the_childs_is_given_here(way, monkeypatch):
    playing(monkeypatch, """print('{"warning": "not taken down whole"}\\n{"error": ["BadSpec", "end"]}')""")
    with pytest.warns(UserWarning, match="not taken down whole"), pytest.raises(BadSpec):
        way(SPEC)


DEAF = 'import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print(\'{"phase": ["deaf", 0, 0]}\','
DEAF += " flush=True); time.sleep(600)"


def test_a_child_that_does_not_heed_is_killed(monkeypatch, clean_host):
    playing(monkeypatch, DEAF)
    monkeypatch.setattr(in_subprocess, "PATIENCE_S", 0.3)

    def stop(name, *_):
        if name == "deaf":
            raise KeyboardInterrupt

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        attend(SPEC, on_phase=stop)
    assert time.monotonic() - begun < 30
    assert no_process_left(clean_host)


@pytest.mark.parametrize("patience_s", [0.3, 600.0], ids=["in time", "at the second cancelling"])
def test_a_child_that_does_not_heed_a_cancelling_is_killed(patience_s, monkeypatch, clean_host):
    playing(monkeypatch, DEAF)
    monkeypatch.setattr(in_subprocess, "PATIENCE_S", patience_s)

    async def stopped():
        deaf = asyncio.Event()
        task = asyncio.create_task(attend_async(SPEC, on_phase=lambda name, *_: name == "deaf" and deaf.set()))
        await asyncio.wait_for(deaf.wait(), 60)
        task.cancel()
        await asyncio.wait({task}, timeout=0.1 if patience_s > 1 else None)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 30)

    asyncio.run(stopped())
    assert no_process_left(clean_host)


#: Until it says who it is it heeds nothing: the child of a notebook's kernel inherits that SIGINT is ignored.
STARTING = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
time.sleep(1)
try:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print('{{"owner": "0@0"}}', flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    open({clean!r}, "x").close()
"""


@pytest.mark.parametrize("after_s", [0.0, 0.5])
def test_a_child_that_is_cancelled_while_it_starts_cleans_up_as_later(after_s, monkeypatch, tmp_path):
    playing(monkeypatch, STARTING.format(clean=str(tmp_path / "clean")))

    async def stopped():
        task = asyncio.create_task(attend_async(SPEC))
        await asyncio.sleep(after_s)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(stopped())
    assert (tmp_path / "clean").exists()


def test_who_listens_to_nothing_holds_nothing_up_and_hears_what_counts():
    reads, writes = os.pipe()
    out = in_subprocess._Outlet(writes)
    out.send(owner="me")
    for number in range(10_000):  # a pipe has 64 KiB
        out.send_if_free(phase=["measuring (s)", number, 10_000])
    out.send(warning="mind the gap")
    with os.fdopen(reads, "rb") as lines:
        last = threading.Thread(target=lambda: (out.send(run="/runs/1"), out.flush(), os.close(writes)))
        last.start()
        told = [json.loads(line) for line in lines]
        last.join()
    assert told[0] == {"owner": "me"}
    assert told[-2:] == [{"warning": "mind the gap"}, {"run": "/runs/1"}]
    phases = [each["phase"][1] for each in told[1:-2]]
    assert phases == list(range(len(phases)))
    assert 100 < len(phases) < 10_000


def test_what_others_print_in_the_child_goes_with_the_complaints():
    script = (
        "import os, subprocess, sys\n"
        "from pairlab.measurement import in_subprocess\n"
        "out = in_subprocess._Outlet(in_subprocess._own_output())\n"
        "print('from python', flush=True)\n"
        "subprocess.run(['echo', 'from a program'])\n"
        "out.send(run='/runs/1')\n"
        "out.flush()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"run": "/runs/1"}
    assert done.stderr.splitlines() == ["from python", "from a program"]


def test_a_child_whose_parent_is_gone_measures_nothing(runs_dir):
    asked = {"parent": 1 << 22, "spec": SPEC.model_dump(), "fresh": False, "wait": True, "root": None, "watched": False}
    done = subprocess.run(
        [sys.executable, "-m", "pairlab.measurement.in_subprocess"],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert not runs_dir.exists()
