"""What a daemon is started with, and what is told of its end; this one is a shell of the test."""

import pytest

from pairlab.errors import TestbedError
from pairlab.testbed.launch.daemons import Daemon


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # it ends with its sandbox, and here with the test's process
def test_a_daemon_runs_in_its_directory_with_the_variables_it_is_given_and_its_end_is_told(sockets_folder):
    said = ["/bin/sh", "-c", 'pwd; echo "$GIVEN ${NOT_GIVEN-unset}"; exit 1']
    daemon = Daemon("sh of host-0", said, sockets_folder, {"GIVEN": "1"})
    with pytest.raises(TestbedError, match=rf"^sh of host-0 has ended\. Its last words: {sockets_folder} \| 1 unset$"):
        daemon.await_output("what it never says", 20)
