"""How fast the command line is there."""

import subprocess
import sys
import textwrap

import pytest
from click.testing import CliRunner

from pairlab import cli, paths
from pairlab.apps.rate_search import LOADS
from pairlab.testbed.registry import backends
from tests.unit.cli.helpers import made_up

#: Each takes longer to import than all that `pairlab --help` does.
HEAVY = {"pandas", "numpy", "matplotlib", "papermill", "docker", "pydantic", "pyroute2", "IPython"}


def test_the_command_line_starts_and_helps_without_what_only_its_commands_need():
    script = "import sys, pairlab.cli; pairlab.cli.main(['--help'], standalone_mode=False); print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "Commands:" in told.stdout
    assert HEAVY.isdisjoint(told.stdout.split())


def test_a_spec_is_made_without_tables_figures_and_daemons():
    script = "import sys; from pairlab import Spec; Spec(driver='ovs', pairs=2); print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (HEAVY - {"pydantic"}).isdisjoint(told.stdout.split())


def test_runs_that_did_not_change_are_listed_without_reading_their_tables(runs_dir):
    made_up(pairs=7)
    script = """
        import sys
        from pairlab import cli
        try:
            cli.main(["ls"])
        except SystemExit:
            print(*sys.modules)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    first, second = (subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2))
    assert "4.20 Gbit/s in total" in second
    assert "pandas" in first.split()
    assert {"pandas", "pyarrow", "numpy"}.isdisjoint(second.split())


def test_help_names_the_environment_variables_and_so_does_the_reference():
    told = CliRunner().invoke(cli.main, ["--help"]).output
    page = (paths.ROOT / "docs" / "reference" / "command-line.md").read_text()
    assert "<!-- made: environment -->" in page
    for name in ("PAIRLAB_RUNS", "PAIRLAB_OUT", "PAIRLAB_STUDY"):
        assert name in told
        assert name in paths.VARIABLES


def test_what_a_command_does_is_said_whole_in_the_list_of_commands():
    listed = CliRunner().invoke(cli.main, ["--help"], terminal_width=80).output
    for name, command in cli.main.commands.items():
        summary = command.help.splitlines()[0]
        assert len(summary) <= 60, (name, summary)
        assert summary in listed, name


@pytest.mark.parametrize(
    ("words", "option", "known"),
    [
        (["search", "latency", "--from", "1", "--to", "2", "--while", "p99 <= 1 ms"], "--over", LOADS),
        *(
            (words, "--backend", backends.names())
            for words in (["sweep", "smoke"], ["calibrate"], ["report", "--sweep", "smoke"], ["advise"])
        ),
    ],
    ids=lambda each: each[0],
)
def test_an_option_with_a_closed_set_refuses_others_by_name_and_its_help_shows_the_set(words, option, known):
    refused = CliRunner().invoke(cli.main, [*words, option, "price"])
    assert refused.exit_code == 2
    assert f"Invalid value for '{option}': 'price' is not one of {', '.join(map(repr, known))}" in refused.output
    assert f"{option} [{'|'.join(known)}]" in CliRunner().invoke(cli.main, [words[0], "--help"]).output
