"""Names that people choose go nowhere near a shell: what each would run there is never run, and it works, or is refused
in words (promise: bad input)."""

import ast
import json
import subprocess

import pytest
from click.testing import CliRunner

from pairlab import paths, store
from pairlab.batch.experiments import notebook_of, spec_of
from pairlab.batch.sweep_file import cells, load
from pairlab.cli import main
from pairlab.errors import BadInput, NoRuns, StoreError
from pairlab.measurement.measure import measure
from pairlab.model.spec import Spec
from pairlab.testbed.cleanup.workdir import working_directory
from tests.support import hostile

SOURCES = sorted([*(paths.ROOT / "lib").glob("*.py"), *(paths.ROOT / "lib" / "pairlab").rglob("*.py")])

each_name = pytest.mark.parametrize("name", hostile.NAMES.values(), ids=hostile.NAMES)


@pytest.fixture(autouse=True)
def canary(tmp_path, monkeypatch):
    canary = hostile.Canary(tmp_path, monkeypatch)
    yield canary
    assert not canary.sang


def refused(*arguments):
    """Whether the command line says in a line, and not in a traceback, what is wrong."""
    done = CliRunner().invoke(main, arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code in (1, 2) and done.output.startswith(("pairlab: ", "Usage: "))


# --- that a shell is nowhere near


def test_the_canary_sings_where_a_shell_reads_a_name(tmp_path, monkeypatch):
    for title in ("substitution", "backticks", "list", "double quotes", "newline", "redirection"):
        one = hostile.Canary(tmp_path / title, monkeypatch)
        one.path.parent.mkdir()
        for quote in ("", "'", '"'):
            command = ["/bin/sh", "-c", f"echo {quote}{hostile.NAMES[title]}{quote}"]
            subprocess.run(command, capture_output=True, check=False)
        assert one.sang, title


def called(node):
    """The name of what is called, as far as it is written out."""
    return ast.unparse(node.func)


def constants(tree):
    """Names of a module's constants that are texts."""
    assigned = [each for each in tree.body if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant)]
    return {ast.unparse(target) for each in assigned for target in each.targets}


def shell_scripts(tree):
    """What stands after `sh -c` in lists of words."""
    for node in ast.walk(tree):
        words = [ast.unparse(each) for each in node.elts] if isinstance(node, ast.List) else []
        if words and words[0].strip("'").rpartition("/")[2] in ("sh", "bash", "dash") and "'-c'" in words:
            yield node.elts[words.index("'-c'") + 1]


@pytest.mark.whole
def test_no_source_hands_a_shell_more_than_a_constant_script():
    """Whatever else it is to know are arguments of the script, which a shell does not read."""
    for file in SOURCES:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        for node in calls:
            assert called(node) not in ("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput")
            assert not any(argument.arg == "shell" for argument in node.keywords), (file, ast.unparse(node))
        for script in shell_scripts(tree):
            text = ast.unparse(script)
            prefixed = file.name == "child_processes.py" and text == "f'read -r _; {script}'"
            assert text in constants(tree) or prefixed, (file, text)
        for node in calls:
            if called(node).endswith(("guarded", "guarded_directory")):
                script = node.args[0]
                assert isinstance(script, ast.Constant) or ast.unparse(script) in constants(tree), (
                    file,
                    ast.unparse(node),
                )


def test_the_shells_there_are_are_seen():
    (file,) = [file for file in SOURCES if file.name == "child_processes.py"]
    assert [*shell_scripts(ast.parse(file.read_text(encoding="utf-8")))]


# --- parameters


@each_name
@pytest.mark.parametrize(
    "parameter", ["experiment", "backend", "driver", "workload", "pinning", "congestion_control", "placement"]
)
def test_a_hostile_parameter_is_a_bad_spec(parameter, name):
    with pytest.raises(BadInput):
        Spec(**{parameter: name})


@each_name
def test_a_hostile_experiment_or_parameter_name_is_refused_before_anything_runs(name):
    with pytest.raises(BadInput):
        notebook_of(name)
    with pytest.raises(BadInput):
        spec_of("throughput", {name: 1})


@pytest.mark.parametrize("name", [hostile.NAMES["substitution"], hostile.NAMES["newline"], "../../etc", ""])
def test_the_command_line_refuses_hostile_words_in_a_line(name, runs_dir):
    assert refused("run", name)
    assert refused("run", "throughput", "-p", "driver", name)
    assert refused("run", "throughput", "-p", "congestion_control", name or "; :")
    assert refused("sweep", name or "no such file")
    assert refused("report", "--sweep", name or "none such")
    assert not runs_dir.exists() or not any(runs_dir.iterdir())


# --- sweeps


@each_name
def test_a_hostile_sweep_is_refused_whatever_part_of_it_has_the_name(name, tmp_path):
    file = tmp_path / f"{name}.yaml"
    for told in (
        {"name": name, "experiments": {"throughput": {}}},
        {"name": "x", "backend": name, "experiments": {"throughput": {}}},
        {"name": "x", "experiments": {name: {}}},
        {"name": "x", "experiments": {"throughput": {"driver": name}}},
        {"name": "x", "experiments": {"throughput": {name: [1, 2]}}},
    ):
        file.write_text(json.dumps(told), encoding="ascii")  # which is YAML too
        with pytest.raises(BadInput):
            cells(load(file))


@each_name
def test_a_sweep_in_a_file_of_a_hostile_name_is_read(name, tmp_path):
    file = tmp_path / f"{name}.yaml"
    file.write_text("name: x\nexperiments: {throughput: {workload: flowgen}}")
    assert len(cells(load(file))) == 1


def test_no_name_of_a_sweep_leads_out_of_its_folder(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "netns.json").write_text('["0123456789abcdef"]')
    (tmp_path / "runs" / ".sweeps").mkdir(parents=True)
    for name in ("../../outside", "..", "*", "/etc", f"{tmp_path}/outside", "x/../../../outside/netns", "a\0b"):
        with pytest.raises(NoRuns):
            store.keys_of_sweep(name, tmp_path / "runs")


# --- folders


def test_a_folder_whose_name_is_no_text_is_refused_before_anything_is_measured(tmp_path):
    with pytest.raises(StoreError, match=r"a\\xffb/throughput/\w+: its name is not UTF-8"):
        measure(Spec(workload="flowgen", driver="host"), root=tmp_path / hostile.NAMES["not UTF-8"])


def test_a_working_directory_is_removed_by_its_guard_alone_whatever_it_is_called(tmp_path, canary, monkeypatch):
    """The guard's script, with a hostile directory: it removes that, and nothing beside."""
    from pairlab.testbed.cleanup import workdir
    from pairlab.testbed.cleanup.child_processes import guarded

    for name in hostile.NAMES.values():
        place, beside = tmp_path / name, tmp_path / "beside"
        place.mkdir()
        beside.mkdir(exist_ok=True)
        with guarded(workdir._REMOVE, str(place)):
            pass
        assert not place.exists()
        assert beside.exists()
    with working_directory() as made:
        assert made.is_relative_to("/tmp")
