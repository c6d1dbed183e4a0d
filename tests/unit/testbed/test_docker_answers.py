"""Docker's answers without what its API does not promise: fields that are missing, or null."""

import contextlib
import copy
import platform
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
from docker.errors import BuildError

from pairlab import Spec
from pairlab.errors import TestbedError
from pairlab.testbed.audit import leftovers, things, view
from pairlab.testbed.audit.view import OTHERS, OURS, UNKNOWN, Attribution, View
from pairlab.testbed.docker import backend, daemon, hosts, image, reaper
from pairlab.testbed.docker.engine import Container, Engine, translated
from pairlab.testbed.docker.reaper import LABEL
from pairlab.testbed.docker.site import _Events
from pairlab.testbed.plans import layout

ID, LAYER = "c" * 64, "1" * 64
LABELS = {LABEL: "ABCDEFGH", "pairlab.owner": f"4242@1000.4026531836.4026531834.{'a' * 32}"}
#: What a container's inspect has that is read, in API 1.41 with the store overlay2.
INSPECT_1_41 = {
    "Id": ID,
    "Name": "/pairlab-ABCDEFGH-client-0",
    "State": {"Running": False, "Pid": 4242},
    "Config": {"Labels": LABELS},
    "GraphDriver": {"Name": "overlay2", "Data": {"MergedDir": f"/var/lib/docker/overlay2/{LAYER}/merged"}},
    "NetworkSettings": {
        "SandboxKey": "/var/run/docker/netns/0123456789ab",
        "Networks": {"pairlab-ABCDEFGH": {"IPAddress": "172.18.0.2"}},
    },
}
#: In API 1.52 with containerd's image store.
INSPECT_1_52 = {key: value for key, value in INSPECT_1_41.items() if key != "GraphDriver"}
ANSWERS = {
    "containers": [{"Id": ID, "Labels": LABELS, "State": "exited"}],
    "inspect_container": INSPECT_1_41,
    "networks": [{"Id": "d" * 64, "Name": "pairlab-ABCDEFGH", "Labels": LABELS}],
    "inspect_network": {
        "Id": "d" * 64,
        "Containers": {ID: {"Name": "pairlab-ABCDEFGH-client-0", "IPv4Address": "172.18.0.2/16"}},
    },
    "info": {"Name": socket.gethostname(), "KernelVersion": platform.release(), "MemTotal": 1, "CPUSet": True},
    "version": {"Version": "29.0.0", "Components": [{"Name": "Engine", "Version": "29.0.0"}]},
    "create_container": {"Id": ID},
    "inspect_swarm": {"JoinTokens": {"Worker": "token"}},
    "inspect_image": {"Id": "sha256:0123"},
}


def saying(answer):
    return lambda *_, **__: copy.deepcopy(answer)


def client(answers):
    said = {name: saying(answer) for name, answer in answers.items()}
    quiet = dict.fromkeys(["remove_container", "remove_network", "init_swarm"], lambda *_, **__: None)
    quiet |= dict.fromkeys(["create_host_config", "join_swarm", "start"], lambda *_, **__: True)
    api = SimpleNamespace(**said, **quiet, base_url="http+docker://localhost")
    images = SimpleNamespace(get=lambda tag: SimpleNamespace(attrs=api.inspect_image()))
    return SimpleNamespace(api=api, images=images, info=api.info, version=api.version, close=lambda: None)


def lacking(answer):
    """The answer without each of its fields in turn, and with null in its place."""
    for key in list(answer) if isinstance(answer, dict) else range(len(answer)) if isinstance(answer, list) else ():
        for value in (*lacking(answer[key]), None):
            yield type(answer)(answer) | {key: value} if isinstance(answer, dict) else [value]
        if isinstance(answer, dict):
            yield {name: value for name, value in answer.items() if name != key}


def read_all(told):
    """Everything that reads an answer of Docker's; each may refuse in words."""
    endpoint = layout(Spec(backend="docker", pairs=1)).endpoints[0]
    engine = Engine(told, "ABCDEFGH", Path("/nowhere"))
    limited = layout(Spec(backend="docker", pairs=1, cpu_quota=0.5))
    swarm = [Engine(client(ANSWERS), "x", Path()), Engine(told, "x", Path())]
    plans = layout(Spec(backend="docker", driver="overlay", hosts=2, placement="across")).hosts
    for read in (
        lambda: daemon.is_here(told, told.info()),
        daemon.missing,
        backend.Docker().version,
        lambda: backend._missing_controllers(limited),
        lambda: list(leftovers._docker_testbeds()),
        lambda: reaper.remove(told, "ABCDEFGH"),
        lambda: image._id(told),
        lambda: hosts._form_swarm(swarm[::-1], plans),
        lambda: engine.create(endpoint, "pairlab-ABCDEFGH"),
        lambda: engine.addresses([endpoint], "pairlab-ABCDEFGH"),
        engine.version,
        Container(engine, ID).engine_pid,
    ):
        with contextlib.suppress(TestbedError), translated("it failed"):
            read()


def seen():
    docker = view.ask_docker()
    assert not docker.lack
    attribution = Attribution({}, {}, "", 0)
    owners = {each.id: view.whose_labels(attribution, each.labels) for each in docker.containers}
    attribution._containers.update(owners)
    return View(attribution, docker, owners)


@pytest.fixture
def answering(monkeypatch):
    """Makes a daemon that gives these answers the one that is asked."""
    monkeypatch.setattr("pairlab.testbed.docker.engine.note", lambda *_: None)

    def answering(**answers):
        told = client(ANSWERS | answers)
        for module in (daemon, backend, reaper):
            monkeypatch.setattr(module, "connect", lambda *_: told)
        return told

    return answering


@pytest.mark.parametrize(
    ("inspect", "mount"),
    [
        (INSPECT_1_41, f"/var/lib/docker/overlay2/{LAYER}/merged"),
        (INSPECT_1_52, f"/var/lib/docker/rootfs/overlayfs/{ID}"),
        (INSPECT_1_52 | {"GraphDriver": None}, f"/var/lib/docker/rootfs/overlayfs/{ID}"),
    ],
)
def test_a_containers_mounts_are_known_with_and_without_a_graph_driver(inspect, mount, answering, monkeypatch):
    answering(inspect_container=inspect)
    points = [("/", mount, "overlay", ()), ("/", f"/var/lib/docker/overlay2/{'2' * 64}/merged", "overlay", ())]
    monkeypatch.setattr(things, "mounted", lambda: points)
    assert [(each.name, each.whose) for each in things.mounts(seen())] == [(mount, OURS), (points[1][1], UNKNOWN)]


@pytest.mark.parametrize("of", ["inspect_container", "networks"])
def test_a_snapshot_needs_no_field_of_containers_and_networks_but_their_id(of, answering, monkeypatch):
    monkeypatch.setattr(things, "mounted", list)
    for answer in lacking(ANSWERS[of]):
        answering(**{of: answer})
        if of == "networks" and not (answer[0] or {}).get("Id"):
            assert "an answer without Id" in view.ask_docker().lack
            continue
        shown = seen()
        assert [each.name for each in (*things.containers(shown), *things.networks(shown))] == ["c" * 12, "d" * 12]
        assert view.whose_namespace_file(shown, Path("/run/docker/netns/0123456789ab")) in (OURS, OTHERS, UNKNOWN)
        list(things.mounts(shown))


def test_an_answer_without_a_field_is_refused_in_words_if_it_is_needed(answering):
    for of, whole in ANSWERS.items():
        for answer in lacking(whole):
            read_all(answering(**{of: answer}))


def test_a_lacking_field_is_named(answering):
    told = answering(info={"Name": socket.gethostname()})
    assert "it sent an answer without KernelVersion" in str(daemon.missing())
    said = r"it failed: an answer without JoinTokens\.Worker\. Is it Docker Engine\?"
    told.api.inspect_swarm = dict
    with pytest.raises(TestbedError, match=said), translated("it failed"):
        hosts._form_swarm([Engine(told, "x", Path())], layout(Spec(backend="docker")).hosts)


def test_a_container_that_ended_has_no_address_and_no_process(answering):
    endpoint = layout(Spec(backend="docker", pairs=1)).endpoints[0]
    told = answering(inspect_network={"Containers": None}, inspect_container={"State": {"Running": False, "Pid": 0}})
    engine = Engine(told, "ABCDEFGH", Path())
    with pytest.raises(TestbedError, match="no address of client-0, so its container has ended: measure again"):
        engine.addresses([endpoint], "pairlab-ABCDEFGH")
    with pytest.raises(TestbedError, match="container cccccccccccc has ended: measure again"):
        Container(engine, ID).engine_pid()


def test_events_without_what_is_read_of_them_are_passed_over():
    event = {"Type": "container", "Action": "start", "Actor": {"ID": ID, "Attributes": {"a": "b"}}, "timeNano": 7}
    network = event | {"Type": "network", "Action": "connect", "Actor": {"ID": "d", "Attributes": {"container": ID}}}
    events = _Events()
    for whole in (event, network):
        for lacks in (None, *lacking(whole)):
            events.note(lacks)
    assert all(each and type(each) is str for key in events.seen for each in key)
    events = _Events()
    events.note(event)
    events.note(network)
    assert events.seen == {(ID, "start"): 7, (ID, "connect"): 7}


@pytest.mark.parametrize(
    "failed",
    [
        {"error": "no such host", "errorDetail": {"message": "no such host"}},
        {"errorDetail": {"code": 1, "message": "no such host"}},  # of API 1.48, `error` is deprecated
    ],
)
def test_an_error_in_a_stream_is_found_in_both_of_its_forms(failed, answering, tmp_path):
    told = answering()
    told.api.build = lambda **_: iter([{"stream": "Step 1/2 : FROM debian"}, failed])
    with pytest.raises(BuildError, match="no such host"):
        image._build(told, lambda *_: None)
    told.api.load_image = lambda file: iter([{"status": "Loading"}, failed])
    (tmp_path / "image.tar").touch()
    with pytest.raises(TestbedError, match="could not load the container image: no such host"):
        hosts._load_image([Engine(told, "x", Path())], tmp_path / "image.tar")
