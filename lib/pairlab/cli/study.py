"""Commands of the study: its creation, workbench and paper."""

from pathlib import Path

import click

from pairlab import paths
from pairlab.cli import options
from pairlab.cli.terminal import write


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="STUDY")
def init(folder):
    """Make a study, a folder for your own question.

    It has an experiment, an analysis, a sweep, a driver, a claim and a paper of its own, small enough to be measured in
    two minutes, to be changed. Everything that comes with pairlab works in it, too.
    """
    from pairlab.apps import study

    in_git = study.create(folder)
    write(f"{folder}/ is a study{', and a git repository' if in_git else ''}: its README.md says what is where.\n")
    write(f"cd {folder}\npairlab sweep flooding\npairlab report")


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS OF JUPYTERLAB]...")
def lab(arguments):
    """Open the workbench in JupyterLab, for you only.

    It listens on this host's loopback, with a token that its address contains. Notebooks run the code of whoever wrote
    them.
    """
    from pairlab.apps import lab as workbench

    workbench.main(arguments)


@click.command()
@click.argument("label", default="")
@options.RUNS
@options.SWEEP
def paper(label, root, sweep):
    """Build the paper from the results that are there.

    LABEL is what `pairlab report` called them: the sweep's name, else the runs folder's (default: runs). The document
    is paper/main.tex of the study, or pairlab's own; where claims were judged, paper/report.pdf beside it has every
    verdict. With --runs or --sweep, results that were made of other runs are refused.
    """
    from pairlab.analysis.output import paper as papers
    from pairlab.analysis.output.provenance import origin_of
    from pairlab.store.dataset import load_runs

    selected = root or sweep
    runs = load_runs(root, sweep=sweep) if selected else None
    label = label or (origin_of(runs, runs.root, sweep).label if runs else paths.runs().name)
    write(paths.shown(papers.build(label, runs=runs)))
