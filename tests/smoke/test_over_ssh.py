"""Smoke of hosts over ssh: one network over two machines, and one that is lost while it measures."""

import pytest

from pairlab import measure
from pairlab.errors import PairlabError
from tests.support import machines as played
from tests.support.machines import across, assert_each_byte_was_counted, killed, nothing_left


@pytest.fixture
def machines(tmp_path, monkeypatch):
    played.need_sshd()
    with played.machines(tmp_path, monkeypatch) as made:
        yield made


def test_each_end_of_a_pair_is_on_a_machine_of_its_own_and_each_byte_is_counted(machines, tmp_path):
    run = measure(across("overlay", flow_bytes=2_000_000, duration_s=60.0), root=tmp_path / "runs")
    assert_each_byte_was_counted(run)
    assert nothing_left()


def test_where_a_connection_is_lost_the_measurement_fails_and_nothing_is_left_on_either_side(machines, tmp_path):
    with pytest.raises(PairlabError):
        measure(across("nat", duration_s=30.0), root=tmp_path / "runs", watch=lambda sample: killed("ssh"))
    assert nothing_left()
