"""`pytest --nbval notebooks/analysis`, also with `-n auto` and `--nbval-lax`, needs no further option.

Outputs are compared as lib/nbval.cfg says. Figures, tables and values go to .cache unless PAIRLAB_OUT names a folder: a
check changes no committed file. Each figure is held to tests/support/figure_rules.py.
"""

import contextlib
import itertools
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    if not (config.getoption("nbval", False) or config.getoption("nbval_lax", False)):
        return
    config.option.nbval_sanitize_with = config.option.nbval_sanitize_with or str(ROOT / "lib" / "nbval.cfg")
    # The kernel is this interpreter, whatever kernelspec a notebook names (pairlab.batch.kernels).
    config.option.nbval_current_env = False
    config.option.nbval_kernel_name = config.option.nbval_kernel_name or "python3"
    if config.getoption("dist", "no") == "load":  # of -n: the cells of a notebook belong to one kernel
        config.option.dist = "loadfile"
    os.environ.setdefault("PAIRLAB_OUT", str(ROOT / ".cache"))
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)  # for the kernels, which load the rules from tests/
    config.add_cleanup(_forked_kernels())


def _forked_kernels():
    """Has nbval fork its kernels, as pairlab does, on Unix sockets in a folder of its own. Returns what ends them.

    Over TCP, Jupyter looks for ports that are free and lets go of them until its kernel takes them: two workers at once
    may be given the same.
    """
    from jupyter_client.manager import KernelManager
    from nbval import kernel

    from pairlab import paths
    from pairlab.batch import kernels
    from pairlab.testbed.cleanup.workdir import working_directory

    held = contextlib.ExitStack()
    place = held.enter_context(working_directory())
    held.enter_context(kernels.kept())

    class Manager(KernelManager):
        imports = sorted({each for path in paths.ANALYSES.glob("*.ipynb") for each in kernels.imports_of(path)})
        _async_launch_kernel = kernels.ForkedKernelManager._async_launch_kernel

        def start_kernel(self, **options):
            rules = "--IPKernelApp.extra_extensions=tests.support.figure_rules"
            return super().start_kernel(extra_arguments=[rules], **options)

    files = (f"{place}/{number}.json" for number in itertools.count())
    kernel.NbvalKernelspecManager = kernels.KernelSpecs
    kernel.KernelManager = lambda **given: Manager(transport="ipc", connection_file=next(files), **given)
    return held.close
