"""What congestion control a host lets its endpoints choose."""

import pytest

from pairlab.testbed import congestion
from pairlab.testbed.backends.docker import Docker
from pairlab.testbed.backends.netns import Netns


@pytest.fixture
def settings(tmp_path, monkeypatch):
    (tmp_path / "tcp_available_congestion_control").write_text("reno bbr cubic\n")
    (tmp_path / "tcp_allowed_congestion_control").write_text("reno bbr\n")
    monkeypatch.setattr(congestion, "SETTINGS", tmp_path)
    return tmp_path


@pytest.mark.parametrize("backend", [Netns, Docker])
def test_what_the_kernel_lacks_is_named_with_what_it_has(backend, settings):
    (lack,) = congestion.lacks("vegas", backend)
    assert str(lack) == (
        "this kernel has no congestion control 'vegas', it has: reno, bbr, cubic:"
        " sudo modprobe tcp_vegas, or choose another"
    )


def test_what_the_host_does_not_allow_to_all_is_for_namespaces_only(settings):
    assert congestion.lacks("cubic", Netns) == []
    (lack,) = congestion.lacks("cubic", Docker)
    assert "sudo sysctl -w net.ipv4.tcp_allowed_congestion_control='reno bbr cubic'" in str(lack)


@pytest.mark.parametrize("name", ["", "reno", "bbr"])
def test_what_is_allowed_or_default_lacks_nothing(name, settings):
    assert congestion.lacks(name, Docker) == []


def test_a_host_that_does_not_tell_is_taken_at_its_word(settings):
    for file in settings.iterdir():
        file.unlink()
    assert congestion.lacks("vegas", Docker) == []
