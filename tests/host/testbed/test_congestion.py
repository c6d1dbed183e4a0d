"""What congestion control a host lets its endpoints choose."""

import pytest

from pairlab.testbed import requirements
from pairlab.testbed.docker.backend import Docker
from pairlab.testbed.netns.backend import Netns


@pytest.fixture
def settings(tmp_path, monkeypatch):
    (tmp_path / "tcp_available_congestion_control").write_text("reno bbr cubic\n")
    (tmp_path / "tcp_allowed_congestion_control").write_text("reno bbr\n")
    monkeypatch.setattr(requirements, "TCP_SETTINGS", tmp_path)
    return tmp_path


def lacks(name, backend):
    return requirements.missing_congestion_control(name, administers=backend.administers)


@pytest.mark.parametrize("backend", [Netns, Docker])
def test_what_the_kernel_lacks_is_named_with_what_it_has(backend, settings):
    (lack,) = lacks("vegas", backend)
    assert str(lack) == (
        "this kernel has no congestion control 'vegas'; it has: reno, bbr, cubic:"
        " sudo modprobe tcp_vegas, or choose another"
    )


def test_what_the_host_does_not_allow_to_all_is_for_namespaces_only(settings):
    assert lacks("cubic", Netns) == []
    (lack,) = lacks("cubic", Docker)
    assert "sudo sysctl -w net.ipv4.tcp_allowed_congestion_control='reno bbr cubic'" in str(lack)


@pytest.mark.parametrize("name", ["", "reno", "bbr"])
def test_what_is_allowed_or_default_lacks_nothing(name, settings):
    assert lacks(name, Docker) == []


def test_where_the_host_does_not_say_nothing_is_refused(settings):
    for file in settings.iterdir():
        file.unlink()
    assert lacks("vegas", Docker) == []
