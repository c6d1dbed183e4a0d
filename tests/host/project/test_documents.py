"""What README.md, CONTRIBUTING.md and the pages of docs/ tell a reader to type works as it stands there."""

import json
import re
import shlex
import subprocess
import sys
from types import SimpleNamespace

import click
import pytest

from pairlab import paths
from pairlab.batch import sweep_file
from pairlab.cli import main
from pairlab.errors import Unavailable
from pairlab.testbed.requirements import require
from pairlab.testbed.ssh import inventory
from tests.conftest import mostly_whole, need
from tests.support import documents

#: The checks whose outcome is up to a plugin; the others may not be met on a busy machine.
ABOUT_THE_PLUGIN = ("hung", "interface_bytes", "port_bytes", "retransmits")


def with_blocks(*languages):
    return [page for page in documents.pages() if documents.blocks(page, *languages)]


@pytest.fixture
def reader(tmp_path):
    """A reader's folder: a study of its own."""
    return tmp_path, documents.study(tmp_path)


def python(*arguments, reader):
    place, environment = reader
    done = subprocess.run(
        [sys.executable, *arguments], cwd=place, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{shlex.join(arguments)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_python_of_the_readme_runs(reader, clean_host):
    need("netns")
    python("-m", "tests.support.documents", "README.md", reader=reader)


@pytest.mark.whole
def test_the_python_of_the_pages_runs(reader, clean_host):
    """In one process, and with one store: what one page has measured, another need not."""
    need("netns")
    pages = [page for page in with_blocks("python") if page != "README.md" and not documents.blocks(page, "console")]
    python("-m", "tests.support.documents", *pages, reader=reader)


@pytest.mark.parametrize("page", mostly_whole(with_blocks("console"), but=["docs/how-to/all-to-all.md"]))
def test_a_page_runs_from_top_to_bottom_and_its_commands_print_what_it_shows(page, reader, clean_host):
    need("netns", **{"workload": "iperf"} if "iperf over" in documents.text_of(page) else {})
    python("-m", "tests.support.documents", page, reader=reader)


@pytest.mark.parametrize("page", with_blocks("sh"))
def test_a_command_without_its_output_has_a_reason(page):
    for words in pairlab_commands(documents.commands(page, "sh")):
        assert any(shlex.join(words).startswith(each) for each in documents.SILENT), f"{page}: pairlab {words}"


def test_every_reason_for_a_command_without_output_is_one_of_a_page():
    shown = [" ".join(each) for page in with_blocks("sh") for each in pairlab_commands(documents.commands(page, "sh"))]
    assert [each for each in documents.SILENT if not any(one.startswith(each) for one in shown)] == []


SHOWN = "net: iperf over host, 2 pairs (netns): ok: 31.3 Gbit/s in total, starts within 719 µs\nstored in runs/x\n"


@pytest.mark.parametrize(
    ("printed", "same"),
    [
        (SHOWN, True),
        (SHOWN.replace("31.3 G", "9.27 M").replace("719 µs", "1 min 2 s"), True),
        (SHOWN.replace("ok", "invalid (other processes used 40.3 % of the CPU time; stop them (a: 9 %))"), True),
        (SHOWN.replace("ok: 31.3 Gbit/s", "ok: 5 Mbit/s, p50 at\nmost 3 µs (others had\n52.5 % of the time)"), False),
        (SHOWN.replace("in total", "altogether"), False),
        (SHOWN.replace("stored in runs/x\n", ""), False),
        (SHOWN + "and more\n", False),
    ],
)
def test_output_has_the_words_that_a_page_shows_whatever_its_numbers(printed, same):
    assert documents.matches(SHOWN, printed) == same


def test_output_is_held_up_to_where_a_page_cuts_it():
    cut = SHOWN.splitlines()[0] + "\n… 1 more line\n"
    assert documents.matches(cut, SHOWN)
    assert documents.matches(SHOWN.replace("iperf over", "…"), SHOWN)
    for line in ("done (3 min 27…", "done (3 min 7 s…", "done (…"):
        assert documents.matches(f"{line}\nend\n", "done (8 s left)\nend\n")
    assert not documents.matches(cut, SHOWN.replace("host", "hub"))


def pairlab_commands(lines):
    """The commands of pairlab in these lines, which a shell may join, as their words."""
    for line in lines:
        for part in re.split(r"&&|;|'", line):
            if match := re.match(r"\s*(?:\$ )?(?:sudo )?(?:\.venv/bin/)?pairlab ([a-z].*)", part):
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
        shown_plugin(page, reader[0], kind, name, attribute)
    told = python("-c", MEASURE, json.dumps([asked for *_, asked in GUIDES]), reader=reader)
    assert [line.split() for line in told.splitlines()] == [["True"]] * len(GUIDES)
