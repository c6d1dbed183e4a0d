"""`pytest -p nbval -p tests.support.kernels --nbval`: kernels that listen on Unix sockets, in a folder of their own.

Over TCP, Jupyter looks for ports that are free and lets go of them until its kernel takes them: two workers at once may
be given the same.
"""

import contextlib
import itertools

from jupyter_client.manager import KernelManager
from nbval import kernel

from pairlab.testbed.cleanup.workdir import working_directory


def pytest_configure(config):
    held = contextlib.ExitStack()
    config.add_cleanup(held.close)
    place = held.enter_context(working_directory())
    files = (f"{place}/{number}.json" for number in itertools.count())
    kernel.KernelManager = lambda **given: KernelManager(transport="ipc", connection_file=next(files), **given)
