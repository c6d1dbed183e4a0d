"""A Docker daemon that answers, and then does not."""

from types import SimpleNamespace

import pytest
from docker.errors import APIError
from requests.exceptions import ReadTimeout

from pairlab.errors import TestbedError
from pairlab.testbed.audit import leftovers
from pairlab.testbed.docker import daemon, engine
from pairlab.testbed.docker.engine import Container


def raising(error):
    def call(*_, **__):
        raise error

    return call


def test_what_is_left_besides_docker_is_found_though_docker_does_not_answer(monkeypatch):
    api = SimpleNamespace(base_url="http+docker://localhost")
    client = SimpleNamespace(api=api, info=raising(ReadTimeout("read timed out")), close=lambda: None)
    monkeypatch.setattr(daemon, "connect", lambda timeout_s: client)
    left = leftovers.Leftover("directory x", lambda: None)
    monkeypatch.setattr(leftovers, "_directories", lambda: iter([(leftovers.Liveness.DEAD, left)]))
    found = leftovers.find()
    assert left in found.dead
    (told,) = [what for what in found.unclear if "Docker" in what]
    assert told == "what Docker may have: the Docker daemon at /var/run/docker.sock did not answer in time"


def test_a_container_that_docker_cannot_remove_is_named_with_the_reason(monkeypatch):
    api = SimpleNamespace(
        kill=raising(APIError("409 Client Error", explanation="is not running")),
        remove_container=raising(APIError("500 Server Error", explanation="device or resource busy")),
        inspect_container=lambda its: {"Id": its},
    )
    monkeypatch.setattr(engine, "_GONE_WITHIN_S", 0.05)
    container = Container(SimpleNamespace(client=SimpleNamespace(api=api)), "0123456789abcdef")
    with pytest.raises(TestbedError, match=r"0123456789ab is still there .*: device or resource busy\. `docker rm"):
        container.remove()
