"""The command line: bad input is one clear line and an exit status, and nothing is written."""

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pairlab import cli, experiments, measurement, paths, report, store, sweep
from pairlab.collection import load_runs
from pairlab.errors import HostBusy, MeasurementFailed, PairlabError, TestbedError, Unavailable
from pairlab.records import Run, table
from pairlab.spec import Spec
from pairlab.testbed import leftovers, registry, sandbox
from pairlab.testbed.bed import open_testbed
from pairlab.testbed.contracts import Lack, NetworkDriver
from tests.conftest import need


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

    def execute(*arguments):
        raise AssertionError("a kernel was started")

    monkeypatch.setattr(experiments, "execute", execute)


def made_up(**spec):
    flows = table("flows", [{"pair": 0, "flow": 0, "status": "ok", "throughput_bps": 4.2e9}])
    facts = {"host": {"fingerprint": "a machine"}}
    return store.write(Run(Spec(**spec), "ok", (), datetime(2024, 5, 1, 12, tzinfo=UTC), facts=facts, flows=flows))


def sweep_file(tmp_path, **parameters):
    file = tmp_path / "small.yaml"
    file.write_text(json.dumps({"name": "small", "experiments": {"throughput": {"workload": "flowgen", **parameters}}}))
    return str(file)


# --- run


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        (
            "drivr",
            "bridge",
            "'throughput' has no parameter 'drivr'; did you mean 'driver'? (there are: backend, driver",
        ),
        ("pairs", "0", "pairs: input should be greater than or equal to 1, not 0"),
        ("pairs", "many", "pairs: input should be a valid integer, not 'many'"),
        ("pairs", "2.5", "pairs: input should be a valid integer, not 2.5"),
        ("pairs", "", "pairs: input should be a valid integer, not ''"),
        ("pairs", "[1, 2]", "pairs: input should be a valid integer, not '[1, 2]'"),
        ("pairs", "9" * 400, "pairs: input should be less than or equal to 5000, not 9999"),
        ("driver", "bridges", f"no driver 'bridges'; there are: {', '.join(registry.drivers.names())}"),
        ("driver", "a b", "driver: string should match pattern '^[a-z][a-z0-9_-]{0,39}$', not 'a b'"),
        ("driver", "two\n\nlines", "driver: string should match pattern"),
        ("driver", "a: b: c", "driver: string should match pattern"),
        ("driver", "'br", "driver: string should match pattern"),
        ("driver", '"br', "driver: string should match pattern"),
        ("driver", "2001-02-31", "driver: string should match pattern"),
        ("driver", "../../etc", "driver: string should match pattern"),
        ("backend", "podman", f"no backend 'podman'; there are: {', '.join(registry.backends.names())}"),
        ("workload", "ping", f"no workload 'ping'; there are: {', '.join(registry.workloads.names())}"),
        ("duration_s", "-1", "duration_s: input should be greater than 0, not -1"),
        ("duration_s", "inf", "duration_s: input should be less than or equal to 86400, not inf"),
        ("warmup_s", "0.3", "warmup_s 0.3 must be a whole number of intervals of 0.5 s"),
        ("fresh", "banana", "fresh: must be a bool, not 'banana'"),
        ("experiment", "fct", "'throughput' has no parameter 'experiment'"),
        ("two\nlines", "1", "'throughput' has no parameter 'two\\nlines'"),
    ],
)
def test_a_wrong_parameter_is_refused_in_one_line(refused, no_notebook, name, value, told):
    status, said = refused("run", "throughput", "-p", name, value)
    assert (status, said[: len(told)]) == (2, told)


def test_what_a_workload_cannot_do_is_refused_before_a_kernel_is_started(refused, no_notebook):
    parameters = ["-p", "workload", "iperf3", "-p", "duration_s", "2.5"]
    status, said = refused("run", "throughput", *parameters)
    assert status == 2
    assert "iperf3 sends for whole seconds only, and warmup_s + duration_s is 2.5" in said


@pytest.mark.parametrize("name", ["thruput", "", "a b", "../01-throughput", "two\nlines"])
def test_an_unknown_experiment_is_told_those_there_are(refused, no_notebook, name):
    known = ", ".join(experiments.notebooks())
    assert refused("run", name) == (2, f"no experiment {name!r}; there are: {known}")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Unavailable("no ovs: get it"), 3),
        (HostBusy("somebody is measuring"), 1),
        (MeasurementFailed("it broke"), 1),
        (TestbedError("it fell"), 1),
        (KeyboardInterrupt(), 130),
        (OSError(24, "Too many open files", "/proc/x"), 1),
    ],
)
def test_each_kind_of_error_has_its_exit_status(refused, monkeypatch, error, status):
    def fail(*arguments):
        raise error

    monkeypatch.setattr(experiments, "run", fail)
    told = str(error) or "interrupted: the host is clean, and finished runs are kept"
    if isinstance(error, OSError):
        told = "/proc/x: Too many open files: see to the disk, its permissions and limits, and go on"
    assert refused("run", "throughput") == (status, told)


def test_a_reader_that_goes_away_is_no_error_to_tell_of(runs_dir):
    for pairs in range(1, 40):
        made_up(pairs=pairs)
    command = [Path(sys.executable).with_name("pairlab"), "ls"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        running.stdout.close()
        assert running.stderr.read() == ""


@pytest.mark.parametrize(("state", "reasons", "status"), [("ok", (), 0), ("invalid", ("started apart",), 1)])
def test_a_run_is_told_with_where_it_lies(pairlab, monkeypatch, state, reasons, status):
    monkeypatch.setattr(experiments, "run", lambda *given: store.write(Run(Spec(pairs=3), state, reasons)))
    done, out, err = pairlab("run", "throughput")
    assert (done, err) == (status, "")
    assert f"3 pairs, 10 s, repetition 0 (netns): {state}" in out
    assert f"stored in {paths.runs()}/throughput/{Spec(pairs=3).key}" in out


def test_values_are_numbers_truth_values_and_else_text(pairlab, monkeypatch):
    given = {}
    monkeypatch.setattr(experiments, "run", lambda name, values: given.update(values) or made_up())
    words = ["-p", "pairs", "3", "-p", "duration_s", "2.5", "-p", "driver", "ovs", "-p", "backend", "a: b: c"]
    pairlab("run", "throughput", *words, "--fresh")
    assert given == {"pairs": 3, "duration_s": 2.5, "driver": "ovs", "backend": "a: b: c", "fresh": True}


def test_as_a_program_it_ends_with_one_line_and_no_traceback(runs_dir):
    command = [Path(sys.executable).with_name("pairlab"), "run", "throughput", "-p", "pairs", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "pairlab: pairs: input should be greater than or equal to 1, not 0\n"
    assert not runs_dir.exists()


# --- what this host lacks


def test_without_a_docker_daemon_the_remedy_is_named_and_the_skip_recorded(pairlab, monkeypatch, runs_dir):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent")
    with pytest.raises(Unavailable, match="no Docker daemon answers at unix:///nonexistent: sudo apt-get install"):
        measurement.measure(Spec(backend="docker", workload="flowgen"))
    (skipped,) = load_runs()
    assert (skipped.status, len(skipped.flows)) == ("skipped", 0)
    assert "sudo systemctl start docker" in skipped.reasons[0]


def test_an_experiment_without_a_docker_daemon_ends_with_status_3(pairlab, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent")
    status, out, err = pairlab("run", "throughput", "-p", "backend", "docker")
    assert (status, out) == (3, "")
    assert err.startswith("pairlab: backend 'docker': no Docker daemon answers at unix:///nonexistent: sudo apt-get")
    assert err.count("\n") == 1


@pytest.mark.parametrize("place", ["nonsense://x", "tcp://", "tcp://127.0.0.1:1", "ssh://nobody"])
def test_a_docker_host_that_is_none_is_a_lack_and_no_crash(monkeypatch, place):
    monkeypatch.setenv("DOCKER_HOST", place)
    (lack,) = (lack for lack in registry.backends.get("docker")().lacks() if "Docker" in lack.what)
    assert lack.what == f"no Docker daemon answers at {place}"


def test_a_tool_that_is_not_installed_is_named_with_its_package(monkeypatch, runs_dir):
    need("netns")
    registry.backends.get("netns")().lacks()  # its answer is kept: found while unshare could be
    monkeypatch.setenv("PATH", "/nonexistent")
    told = r"workload 'iperf3': iperf3 is not installed: sudo apt-get install iperf3"
    with pytest.raises(Unavailable, match=told):
        measurement.check(Spec(workload="iperf3"))


def test_without_iperf_flowgen_does_the_work_by_itself(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert measurement.resolve(Spec()).workload == "flowgen"
    assert measurement.resolve(Spec(backend="docker")).workload == "iperf"  # it is in the image


class Imaginary(NetworkDriver):
    """A driver that wants a kind of link no kernel has."""

    name = "imaginary"
    summary = "for the tests"
    links = ("imaginary",)

    def create(self, lan):
        raise AssertionError("it was built")


def test_a_kind_of_link_the_kernel_lacks_is_told_before_anything_is_built(monkeypatch, runs_dir):
    need("netns")
    monkeypatch.setitem(registry.drivers._known, "imaginary", Imaginary)
    told = "driver 'imaginary': this kernel has no imaginary links: sudo modprobe imaginary, or leave 'imaginary' out"
    with pytest.raises(Unavailable, match=told):
        measurement.check(Spec(driver="imaginary", workload="flowgen"))
    with pytest.raises(Unavailable, match="this kernel has no imaginary links"), open_testbed(Spec(driver="imaginary")):
        pass
    with pytest.raises(Unavailable):
        measurement.measure(Spec(driver="imaginary", workload="flowgen"))
    assert [run.status for run in load_runs()] == ["skipped"]


@pytest.fixture
def rootless_host(monkeypatch, tmp_path):
    """A host whose unshare fails as AppArmor makes it fail, with switches in /proc/sys as given."""

    def rootless_host(
        *, said="unshare: write failed /proc/self/uid_map: Operation not permitted", root=False, **switches
    ):
        stub = tmp_path / "bin" / "unshare"
        stub.parent.mkdir(exist_ok=True)
        stub.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
        stub.chmod(0o755)
        for name, value in switches.items():
            place = "user" if name == "max_user_namespaces" else "kernel"
            file = tmp_path / "sys" / place / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{value}\n")
        monkeypatch.setenv("PATH", str(stub.parent), prepend=os.pathsep)
        monkeypatch.setattr(sandbox, "SYSCTLS", tmp_path / "sys")
        monkeypatch.setattr(os, "geteuid", lambda: 0 if root else 1000)
        return sandbox.lack.__wrapped__()

    return rootless_host


@pytest.mark.parametrize(
    ("switches", "remedy"),
    [
        (
            {"apparmor_restrict_unprivileged_userns": 1},
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or run pairlab as root",
        ),
        (
            {"unprivileged_userns_clone": 0},
            "sudo sysctl -w kernel.unprivileged_userns_clone=1, or run pairlab as root",
        ),
        ({"max_user_namespaces": 0}, "sudo sysctl -w user.max_user_namespaces=15000, or run pairlab as root"),
        (
            {"apparmor_restrict_unprivileged_userns": 0, "unprivileged_userns_clone": 1, "max_user_namespaces": 9000},
            "allow user namespaces for this user, or run pairlab as root",
        ),
    ],
    ids=["AppArmor", "Debian's switch", "none allowed", "another reason"],
)
def test_without_user_namespaces_the_switch_to_turn_is_named(rootless_host, switches, remedy):
    lack = rootless_host(**switches)
    what = "no sandbox can be made (unshare: write failed /proc/self/uid_map: Operation not permitted)"
    assert lack == Lack(what, remedy)


def test_root_without_its_rights_is_not_told_to_become_root(rootless_host):
    lack = rootless_host(said="unshare: unshare failed: Operation not permitted", root=True, max_user_namespaces=0)
    assert lack.what == "no sandbox can be made (unshare: unshare failed: Operation not permitted)"
    assert lack.remedy == "this root lacks CAP_SYS_ADMIN (a container?): give it --privileged, or run on the host"


def test_the_backend_tells_what_its_sandbox_lacks(rootless_host, monkeypatch):
    lack = rootless_host(max_user_namespaces=0)
    monkeypatch.setattr(sandbox, "lack", lambda: lack)
    with pytest.raises(Unavailable, match=r"backend 'netns': no sandbox can be made.*user\.max_user_namespaces=15000"):
        measurement.check(Spec(workload="flowgen"))
    with pytest.raises(Unavailable, match=r"user\.max_user_namespaces=15000"):
        sandbox.Sandbox()


# --- doctor


def doctor_as_program(*words, **environment):
    command = [Path(sys.executable).with_name("pairlab"), "doctor", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_doctor_tells_programs_of_everything_that_can_be_chosen():
    found = json.loads(doctor_as_program("--json"))
    assert sorted(found["backends"]) == registry.backends.names()
    things = list(found["extras"].values())
    for backend in found["backends"].values():
        assert sorted(backend["drivers"]) == registry.drivers.names()
        assert sorted(backend["workloads"]) == registry.workloads.names()
        things += [backend, *backend["drivers"].values(), *backend["workloads"].values()]
    for thing in things:
        assert thing["available"] == (thing["missing"] == [])
        assert all(set(lack) == {"what", "remedy"} and all(lack.values()) for lack in thing["missing"])
        assert thing["summary"]
    assert found["host"]["cpus"] == os.cpu_count()


def test_doctor_on_a_host_with_nothing_names_what_is_missing_and_how_to_get_it():
    environment = {"PATH": "/nonexistent", "DOCKER_HOST": "unix:///nonexistent"}
    found = json.loads(doctor_as_program("--json", **environment))
    netns, docker = found["backends"]["netns"], found["backends"]["docker"]
    assert {"what": "unshare is not installed", "remedy": "sudo apt-get install util-linux"} in netns["missing"]
    assert docker["missing"][0]["what"] == "no Docker daemon answers at unix:///nonexistent"
    for backend in (netns, docker):
        assert not any(thing["available"] for thing in [backend, *backend["drivers"].values()])
    (latex,) = found["extras"]["LaTeX"]["missing"]
    assert latex["what"] == "LaTeX lacks latexmk, pdflatex, kpsewhich"
    packages = "latexmk texlive-latex-recommended texlive-pictures texlive-publishers texlive-science"
    assert latex["remedy"] == f"sudo apt-get install {packages}"
    text = doctor_as_program(**environment)
    assert "unshare is not installed: sudo apt-get install util-linux" in text
    assert "With root, make tools installs" in text


# --- sweep


def test_a_missing_sweep_file_lists_those_there_are(refused):
    status, said = refused("sweep", "sweeps/nowhere.yaml")
    assert status == 2
    assert said.startswith("sweeps/nowhere.yaml: No such file or directory; sweeps/ has: ")
    assert "smoke.yaml" in said


def test_a_sweep_with_a_mistake_measures_nothing(refused, no_notebook, tmp_path):
    status, said = refused("sweep", sweep_file(tmp_path, driver=["bridge", "bride"]))
    assert (status, "no driver 'bride'; there are: " in said) == (2, True)
    status, said = refused("sweep", sweep_file(tmp_path), "--backend", "podman")
    assert (status, said) == (2, f"no backend 'podman'; there are: {', '.join(registry.backends.names())}")


def test_a_dry_run_shows_the_cells_and_measures_nothing(pairlab, no_notebook, runs_dir, tmp_path):
    status, out, err = pairlab("sweep", sweep_file(tmp_path, pairs=[1, 2]), "--dry-run")
    assert (status, err) == (0, "")
    assert out.count("throughput: flowgen over bridge") == 2
    assert out.splitlines()[-1] == "2 cells, about 10 s for those to be measured"
    assert not runs_dir.exists()


def test_a_sweep_that_is_not_done_names_the_cells_and_ends_with_status_1(pairlab, monkeypatch, tmp_path):
    def execute(spec):
        if spec.pairs == 2:
            raise TestbedError("the bridge broke")
        return made_up(**spec.model_dump())

    run = sweep.run
    monkeypatch.setattr(sweep, "run", lambda *given, **named: run(*given, **named, execute=execute))
    monkeypatch.setattr(sweep, "check", lambda spec: None)
    status, out, err = pairlab("sweep", sweep_file(tmp_path, pairs=[1, 2]))
    assert (status, err) == (1, "")
    assert "1 done, 0 skipped, 1 not done" in out
    assert "  not done: throughput: flowgen over bridge, 2 pairs, 2 s, repetition 0 (netns): the bridge broke" in out
    assert out.splitlines()[-1].endswith(f" sweep {tmp_path / 'small.yaml'} --retry")
    again = ["sweep", sweep_file(tmp_path, pairs=[1, 2]), "--backend", "netns"]
    assert "repetition 0 (netns): kept from before (the bridge broke)" in pairlab(*again)[1]
    assert pairlab(*again)[1].splitlines()[-1].endswith("small.yaml --backend netns --retry")
    status, out, _ = pairlab("sweep", sweep_file(tmp_path, pairs=[1]))
    assert (status, "1 done, 0 skipped, 0 not done" in out) == (0, True)


def test_a_sweep_of_which_nothing_is_done_tells_each_reason_once_and_ends_with_status_3(pairlab, monkeypatch, tmp_path):
    def check(spec):
        raise Unavailable(f"no {spec.driver} here: get one")

    monkeypatch.setattr(sweep, "check", check)
    file = sweep_file(tmp_path, driver=["bridge", "host"], pairs=[1, 2, 3])
    status, out, err = pairlab("sweep", file)
    assert (status, err) == (3, "pairlab: nothing was measured, so there is nothing to report\n")
    assert out.splitlines()[-3] == "0 done, 6 skipped, 0 not done"
    assert sorted(out.splitlines()[-2:]) == [
        "  skipped 3 cells: no bridge here: get one",
        "  skipped 3 cells: no host here: get one",
    ]


# --- report


@pytest.fixture
def analysed(monkeypatch):
    """What the report was asked to analyse; no notebook is executed and no paper built."""
    given = []
    monkeypatch.setattr(report, "execute", lambda notebook, executed, parameters: given.append(parameters))
    return given


@pytest.fixture
def no_paper(monkeypatch, tmp_path):
    def build(label, *, runs):
        raise PairlabError("the paper was not built: ! Undefined control sequence.")

    monkeypatch.setattr(report.paper, "build", build)
    monkeypatch.setenv("PAIRLAB_OUT", str(tmp_path / "out"))


def test_a_report_without_a_paper_still_shows_its_results(pairlab, analysed, no_paper):
    made_up(workload="flowgen")
    status, out, err = pairlab("report")
    assert (status, err) == (0, "")
    assert "1 runs read, 1 count, 0 left out" in out
    assert "netns-flowgen: total throughput in Gbit/s" in out
    assert out.splitlines()[-1].endswith("none: the paper was not built: ! Undefined control sequence.")
    status, _, err = pairlab("report", "--need-paper")
    assert (status, err) == (1, "pairlab: the paper was not built: ! Undefined control sequence.\n")


def test_a_report_is_of_the_folder_that_pairlab_runs_names_unless_told_another(
    pairlab, analysed, no_paper, runs_dir, tmp_path
):
    made_up(workload="flowgen")
    assert pairlab("report")[0] == 0
    assert pairlab("report", "--runs", str(runs_dir))[0] == 0
    assert analysed == 2 * len(report.analyses()) * [{"runs": str(runs_dir), "sweep": ""}]
    status, _, err = pairlab("report", "--runs", str(tmp_path / "empty"))
    assert (status, err.startswith(f"pairlab: no runs in {tmp_path / 'empty'}")) == (1, True)


def test_a_report_of_a_sweep_is_of_all_backends_or_of_one(pairlab, analysed, no_paper):
    for backend in ("netns", "docker"):
        store.remember_sweep("small", [made_up(workload="flowgen", backend=backend).spec])
    assert "2 runs read" in pairlab("report", "--sweep", "small")[1]
    _, out, _ = pairlab("report", "--sweep", "small", "--backend", "docker")
    assert "1 runs read" in out
    assert "docker-flowgen: total" in out
    assert "netns-flowgen" not in out
    every = len(report.analyses())
    assert [parameters["sweep"] for parameters in analysed] == every * ["small"] + every * ["small/docker"]
    assert "small-docker" in out  # the label


def test_a_backend_without_a_sweep_is_refused(refused):
    assert refused("report", "--backend", "docker") == (2, "--backend picks cells of a sweep: name it with --sweep")


# --- ls


def test_ls_without_runs_says_how_to_get_some(refused, runs_dir):
    status, said = refused("ls")
    assert (status, said[: len(f"no runs in {runs_dir}: measure some")]) == (1, f"no runs in {runs_dir}: measure some")
    assert refused("ls", "/tmp")[1].startswith("no runs of '/tmp' in ")


def test_ls_shows_whole_keys_and_every_damaged_run(pairlab, runs_dir):
    run, spoilt = made_up(driver="macvlan", pairs=7, workload="flowgen"), made_up(pairs=8)
    (spoilt.path / "run.json").write_text("{")
    status, out, _ = pairlab("ls")
    assert status == 0
    row = next(line for line in out.splitlines() if run.key in line)
    assert row.split() == f"{run.key} throughput netns macvlan 7 flowgen 0 ok 4.20 2024-05-01 12:00".split()
    assert f"{spoilt.path} is not a whole run" in out


def test_ls_tells_why_a_run_does_not_count(pairlab):
    store.write(Run(Spec(), "failed", ("no server", "no client")))
    assert f"{Spec().key}: failed: no server; no client" in pairlab("ls")[1]


def test_ls_as_json_is_json_and_names_damaged_runs_beside_it(pairlab):
    run, spoilt = made_up(pairs=7), made_up(pairs=8)
    (spoilt.path / "run.json").write_text("{")
    status, out, err = pairlab("ls", "--json")
    (row,) = json.loads(out)
    assert (status, row["key"], row["pairs"], row["status"]) == (0, run.key, 7, "ok")
    assert row["measured_at"].startswith("2024-05-01T12:00:00")
    assert f"{spoilt.path} is not a whole run" in err


# --- clean


@pytest.fixture
def nothing_left(monkeypatch):
    """As if no testbed of a dead process were on this host; others may be working on it."""
    monkeypatch.setattr(leftovers, "find", lambda: iter(()))


def test_clean_on_an_empty_store_has_nothing_to_do(pairlab, nothing_left, runs_dir):
    assert pairlab("clean", "--dry-run") == (0, "nothing to clean\n", "")
    assert pairlab("clean") == (0, "nothing to clean\n", "")
    assert not runs_dir.exists()


def test_clean_removes_what_is_damaged_and_only_that(pairlab, nothing_left):
    run, spoilt = made_up(pairs=7), made_up(pairs=8)
    made_up(pairs=7)
    (spoilt.path / "run.json").write_text("{")
    what = f"run {spoilt.path} (damaged, kept in .replaced/)\n"
    assert pairlab("clean", "--dry-run") == (0, f"would remove {what}", "")
    assert spoilt.path.exists()
    assert pairlab("clean") == (0, f"removing {what}", "")
    assert not spoilt.path.exists()
    assert [each.key for each in load_runs()] == [run.key]
    kept = sorted((run.path.parent / ".replaced").iterdir())
    assert {path.name.partition("-")[0] for path in kept} == {run.key, spoilt.key}
    assert pairlab("clean", "--replaced") == (0, "".join(f"removing run {path} (replaced)\n" for path in kept), "")
    assert pairlab("clean", "--replaced") == (0, "nothing to clean\n", "")


def test_clean_that_may_not_remove_says_so(pairlab, nothing_left, monkeypatch):
    spoilt = made_up()
    (spoilt.path / "run.json").write_text("{")

    def rename(path, target):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", rename)
    status, _, err = pairlab("clean")
    assert status == 1
    assert err == f"pairlab: {spoilt.path} could not be removed: Permission denied. Is it yours to remove?\n"


def test_clean_finds_the_working_directory_of_a_dead_process_and_no_other(monkeypatch, tmp_path):
    ended = subprocess.Popen(["true"])
    ended.wait()
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent")
    monkeypatch.setattr(leftovers, "Path", lambda _: tmp_path)
    monkeypatch.setattr(leftovers, "LINKS", tmp_path)
    owners = {"dead": f"{ended.pid}@1", "alive": leftovers.owner.me(), "unclear": "?"}
    owners |= {"nobody's": None, "new": None, "empty": "", "a-users": None}
    for name, owner in owners.items():
        place = tmp_path / f"pairlab-{name}"
        place.mkdir()
        if owner is not None:
            (place / "owner").write_text(owner)
        if name == "a-users":
            (place / "thesis.tex").touch()
        if name != "new":
            os.utime(place, (time.time() - 61,) * 2)
    found = list(leftovers.find())
    gone = ["dead", "empty", "nobody's"]
    assert [each.what for each in found] == [f"directory {tmp_path}/pairlab-{name}" for name in gone]
    for each in found:
        each.remove()
    kept = ["a-users", "alive", "new", "unclear"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"pairlab-{name}" for name in kept]


def test_clean_finds_the_link_of_a_dead_process_and_no_other(monkeypatch, tmp_path):
    ended = subprocess.Popen(["true"])
    ended.wait()
    monkeypatch.setattr(leftovers, "LINKS", tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    aliases = {"pldead": f"{ended.pid}@1\n", "plalive": leftovers.owner.me(), "plip": "\n", "eth0": f"{ended.pid}@1"}
    for name, alias in aliases.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "ifalias").write_text(alias)
    (found,) = leftovers._links()
    assert found.what == "link pldead"
    removed = []
    monkeypatch.setattr("pairlab.testbed.lifeline.remove_link", removed.append)
    (found,) = leftovers._links()
    found.remove()
    assert removed == ["pldead"]
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert list(leftovers._links()) == []
