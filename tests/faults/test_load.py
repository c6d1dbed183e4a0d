"""Load, at a size that fits: the promises of the soak (lib/soak/__main__.py), with fewer pairs and cells.

Many pairs come and go and leave nothing; a sweep under kills ends with every cell done.
"""

import pytest

from soak import disturbed
from soak import load as soak_load
from soak import sweep as soak_sweep
from tests.conftest import need


def test_many_pairs_in_namespaces_come_and_go_and_leave_nothing(record_property):
    need("netns")
    soak_load.netns(record_property, quick=True)


@pytest.mark.long  # each test in Docker sees that nothing was left
def test_pairs_in_docker_come_and_go_and_leave_nothing(record_property):
    need("docker")
    soak_load.docker(record_property, quick=True)


def test_a_sweep_under_kills_ends_with_every_cell_done_and_nothing_left(record_property):
    need("netns")
    need("netns", driver="macvlan")
    soak_sweep.run(record_property, quick=True)


def test_under_random_disturbances_a_number_is_what_the_kernel_counted_or_the_run_is_not_ok(record_property):
    need("netns")
    disturbed.run(record_property, quick=True)
