"""What README.md, CONTRIBUTING.md and the pages of docs/ tell a reader to type works as it stands there."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import click
import pytest
import yaml

from pairlab import paths, store
from pairlab.batch import sweep_file
from pairlab.cli import main
from pairlab.errors import Unavailable
from pairlab.store.dataset import load_runs
from pairlab.testbed.requirements import require
from pairlab.testbed.ssh import inventory
from tests.conftest import mostly_whole, need
from tests.support import documents

#: A measurement in a test must not hang on what else the machine does.
ON_A_BUSY_MACHINE = ("-p", "max_foreign_cpu", "1", "-p", "max_skew_s", "5")

#: The checks whose outcome is up to a plugin; the others may not be met on a busy machine.
ABOUT_THE_PLUGIN = ("hung", "interface_bytes", "port_bytes", "retransmits")


def with_blocks(*languages):
    return [page for page in documents.pages() if documents.blocks(page, *languages)]


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """A reader's folder, with the sweep files that there are and a store of its own."""
    shutil.copytree(paths.SWEEPS, tmp_path / "sweeps")
    monkeypatch.setenv("PAIRLAB_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("PAIRLAB_OUT", str(tmp_path))
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(tmp_path), str(paths.ROOT), os.environ.get("PYTHONPATH", "")])
    )
    return tmp_path


def succeeded(done):
    return done.returncode == 0


def measured_at_least(done):
    """Also where the run is invalid, and stored: that this machine is busy is no fault of a page."""
    invalid = re.search(r": invalid \(.*^stored in ", done.stdout, re.MULTILINE | re.DOTALL)
    return succeeded(done) or (done.returncode == 1 and invalid)


def python(*arguments, place, good=succeeded):
    done = subprocess.run([sys.executable, *arguments], cwd=place, capture_output=True, text=True, check=False)
    assert good(done), f"{shlex.join(arguments)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def pairlab(*arguments, **how):
    return python("-m", "pairlab", *arguments, **how)


def test_the_python_of_the_readme_runs(reader, clean_host):
    need("netns")
    python("-m", "tests.support.documents", "README.md", place=reader)


@pytest.mark.whole
def test_the_python_of_the_pages_runs_and_the_tutorials_also_for_who_has_measured_its_sweep(reader, clean_host):
    """In one process, and with one store: what one page has measured, another need not."""
    need("netns")
    pages = [page for page in with_blocks("python") if page != "README.md"]
    python("-m", "tests.support.documents", *pages, place=reader)
    (run, *_) = load_runs(reader / "runs", experiment="throughput").where(pairs=4)
    (sweep,) = documents.blocks("docs/tutorial.md", "yaml")
    (reader / "sweeps" / "question.yaml").write_text(sweep.text)
    for spec in sweep_file.cells(sweep_file.load(reader / "sweeps" / "question.yaml")):
        store.write(replace(run, spec=spec), reader / "runs")
    python("-m", "tests.support.documents", "docs/tutorial.md", place=reader)
    assert {4, 20} <= {each.spec.pairs for each in load_runs(reader / "runs")}


@pytest.mark.parametrize("page", mostly_whole(with_blocks("console"), but=["docs/tutorial.md"]))
def test_the_commands_of_a_page_run(page, reader, clean_host):
    need("netns")
    for sweep in documents.blocks(page, "yaml"):
        (reader / "sweeps" / f"{yaml.safe_load(sweep.text)['name']}.yaml").write_text(sweep.text)
    for command in documents.commands(page, "console"):
        program, *arguments = shlex.split(command)
        assert program == "pairlab", f"{page}: a console block has commands of pairlab; others are sh: {command}"
        more, good = (ON_A_BUSY_MACHINE, measured_at_least) if arguments[0] == "run" else ((), succeeded)
        pairlab(*arguments, *more, place=reader, good=good)


def pairlab_commands(lines):
    """The commands of pairlab in these lines, which a shell may join, as their words."""
    for line in lines:
        for part in re.split(r"&&|;|'", line):
            if match := re.match(r"\s*(?:\.venv/bin/)?pairlab ([a-z].*)", part):
                yield shlex.split(match[1])


@pytest.mark.parametrize("page", with_blocks("", "sh", "console"))
def test_every_command_shown_is_one_that_pairlab_takes(page):
    for name, *arguments in pairlab_commands(documents.commands(page, "", "sh", "console")):
        assert name in main.commands, f"{page}: pairlab {name}"
        try:
            main.commands[name].make_context(name, arguments)
        except click.UsageError as error:
            pytest.fail(f"{page}: pairlab {name} {shlex.join(arguments)}: {error.format_message()}")


@pytest.mark.parametrize("page", documents.pages())
def test_every_command_told_of_in_prose_has_the_options_it_is_told_with(page):
    for name, *words in pairlab_commands(re.findall(r"`([^`\n]+)`", documents.text_of(page))):
        assert name in main.commands, f"{page}: pairlab {name}"
        known = {option for each in main.commands[name].params for option in each.opts} | {"--help"}
        assert {word for word in words if word.startswith("-")} <= known, f"{page}: pairlab {name}"


@pytest.mark.parametrize("page", with_blocks("yaml"))
def test_every_sweep_file_and_inventory_shown_is_one(page, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "STUDY", tmp_path)
    for block in documents.blocks(page, "yaml"):
        is_inventory = block.text.startswith("hosts:")
        file = tmp_path / (inventory.NAME if is_inventory else "shown.yaml")
        file.write_text(block.text)
        assert inventory.machines() if is_inventory else sweep_file.cells(sweep_file.load(file))


def test_every_block_of_code_is_held_to_something():
    """Few may be text that nothing holds: a language that is not known would be one in silence."""
    known = {*documents.RUN, *documents.PARSED, *documents.READ, ""}
    found = [block for page in documents.pages() for block in documents.blocks(page)]
    assert {block.language for block in found} <= known
    assert len(found) == sum(line.startswith("```") for page in documents.pages() for line in lines_of(page)) / 2
    only_read = [block for block in found if block.language in documents.READ]
    assert len(only_read) < len(found) / 5


def lines_of(page):
    return documents.text_of(page).splitlines()


def test_the_refusal_of_a_daemon_elsewhere_is_told_in_its_own_words(monkeypatch):
    from pairlab.testbed.docker import backend
    from pairlab.testbed.docker import daemon as daemons

    daemon = SimpleNamespace(version=dict, api=SimpleNamespace(), close=lambda: None)
    daemon.info = lambda: {"Name": "big", "KernelVersion": "0"}
    monkeypatch.setattr(daemons, "connect", lambda timeout_s: daemon)
    with pytest.raises(Unavailable) as refused:
        require({"backend 'docker'": backend.Docker().missing()})
    (shown,) = documents.blocks("docs/how-to/remote-docker.md", "text")
    assert str(refused.value).startswith(" ".join(shown.text.split()))


# --- the plugins that the guides show


def shown_plugin(page, place, kind, name, attribute):
    """The page's plugin as a package of its own: a module, and the entry point that names its class."""
    (source,) = [block.text for block in documents.blocks(page, "python") if f'name = "{name}"' in block.text]
    (place / f"{name}_plugin.py").write_text(source)
    package = place / f"{name}-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(f"[pairlab.{kind}]\n{name} = {name}_plugin:{attribute}\n")


#: The guides' plugins: their page, kind, name and class, and what is measured with each.
GUIDES = (
    ("docs/how-to/driver.md", "drivers", "hub", "Hub", {"driver": "hub", "workload": "flowgen"}),
    ("docs/how-to/driver.md", "drivers", "cable", "Cable", {"driver": "cable", "workload": "flowgen"}),
    ("docs/how-to/workload.md", "workloads", "dd", "Dd", {"workload": "dd", "message_bytes": 16384}),
)

#: Prints, of each run, whether its flows carried something, and what is wrong with it that is up to a plugin.
MEASURE = f"""
import json, sys
from pairlab import Spec, measure
from pairlab.measurement.checks import CHECKS
for asked in json.loads(sys.argv[1]):
    run = measure(Spec(pairs=2, duration_s=1, max_foreign_cpu=1, max_skew_s=5, **asked))
    reasons = [CHECKS[name].reason(run.checks[name], run.spec) for name in {ABOUT_THE_PLUGIN}]
    print((run.flows["flow_bytes"] > 1e5).all(), *filter(None, reasons), *run.flows["error"])
"""


@pytest.mark.whole
def test_the_plugins_of_the_guides_work_from_packages_of_their_own(reader, clean_host):
    need("netns", workload="netcat")
    for page, kind, name, attribute, _ in GUIDES:
        shown_plugin(page, reader, kind, name, attribute)
    told = python("-c", MEASURE, json.dumps([asked for *_, asked in GUIDES]), place=reader)
    assert [line.split() for line in told.splitlines()] == [["True"]] * len(GUIDES)
