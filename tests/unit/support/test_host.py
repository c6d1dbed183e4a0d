"""What tests hold the host against: a look that fails is no empty host."""

from types import SimpleNamespace

import pytest
import requests
from docker.errors import APIError, DockerException

from tests.support import host
from tests.support.owners import ended

BUSY = requests.ReadTimeout("no answer within 60 s")


@pytest.fixture
def daemon(monkeypatch):
    """A daemon that has one container of pairlab's, whose owner is gone, and tells of it after these errors."""

    def daemon(*errors):
        remaining = iter(errors)

        def containers(**_):
            for error in remaining:
                raise error
            return [{"Names": ["/pairlab-left"], "Labels": {"pairlab.owner": ended()}}]

        api = SimpleNamespace(containers=containers, networks=lambda **_: [])
        monkeypatch.setattr(host, "connect", lambda: SimpleNamespace(api=api, close=lambda: None))

    return daemon


@pytest.mark.parametrize("error", [BUSY, APIError("the daemon is shutting down a network")])
def test_a_daemon_that_does_not_list_what_it_has_is_asked_again(daemon, error):
    daemon(error, error)
    assert host.snapshot()["docker"] == {"/pairlab-left"}


def test_a_daemon_that_never_says_what_it_has_is_not_taken_for_one_that_has_nothing(daemon, monkeypatch):
    monkeypatch.setattr(host, "TELLS_WITHIN_S", 0.2)
    daemon(*[APIError("too busy")] * 1000)
    with pytest.raises(APIError, match="too busy"):
        host.snapshot()


def test_a_daemon_that_is_too_busy_to_greet_is_none_that_is_not_there(monkeypatch):
    def too_busy():
        raise DockerException("Error while fetching server API version") from BUSY

    monkeypatch.setattr(host, "TELLS_WITHIN_S", 0.2)
    monkeypatch.setattr(host, "connect", too_busy)
    with pytest.raises(DockerException):
        host.snapshot()


def test_where_there_is_no_daemon_there_is_nothing_of_it(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent")
    assert host.snapshot()["docker"] == set()


def test_what_has_gone_while_a_slow_look_was_taken_is_not_left(monkeypatch):
    now = [0.0]

    def slow_look():
        begun, now[0] = now[0], now[0] + 9
        return {"links": {"pairlab0"} if begun < 4 else set()}

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: None)
    monkeypatch.setattr(host, "time", clock)
    monkeypatch.setattr(host, "snapshot", slow_look)
    assert host.settled({"links": set()}, within_s=5)


def test_what_stays_is_left(monkeypatch):
    monkeypatch.setattr(host, "snapshot", lambda: {"links": {"pairlab0"}})
    assert not host.settled({"links": set()}, within_s=0.2)
