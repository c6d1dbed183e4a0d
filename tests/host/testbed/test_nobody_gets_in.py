"""Nobody gets in: servers listen inside the testbed only, and no secret of the environment is kept or handed on."""

import contextlib
import ipaddress
import os
import secrets
import socket
import subprocess
import sys
from pathlib import Path

import pandas as pd
import psutil
import pytest

from pairlab import store
from pairlab.model.spec import Spec
from pairlab.testbed.open import open_testbed
from tests.conftest import any_backend, backend_and_driver, combinations, mostly_whole, need
from tests.support.attempts import measured
from tests.support.shared import asking
from tests.support.sockets import assert_inside, listening_here


def test_what_listens_here_is_seen():
    with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
        for each in (tcp, udp):
            each.bind(("127.0.0.1", 0))
        tcp.listen()
        now = listening_here()
        for each in (tcp, udp):
            assert (ipaddress.ip_address("127.0.0.1"), each.getsockname()[1]) in now


@pytest.mark.parametrize(("backend", "driver", "workload"), combinations())
def test_servers_listen_inside_the_testbed_only(backend, driver, workload, shared_run):
    seen = shared_run(backend, driver, workload)
    servers = [end for name, end in seen.at_release.items() if name.startswith("server-")]
    assert len(servers) == 2
    assert_inside(backend, driver, servers, seen.new_listeners)


@pytest.mark.whole
@pytest.mark.parametrize(("backend", "driver"), mostly_whole(backend_and_driver(), but=[("netns", "bridge")]))
def test_udp_servers_listen_inside_the_testbed_only(backend, driver, shared_datagrams):
    seen = shared_datagrams(backend, driver)
    servers = [end for name, end in seen.at_release.items() if name.startswith("server-")]
    assert len(servers) == 2
    assert_inside(backend, driver, servers, seen.new_listeners)


def test_who_reaches_a_server_all_the_same_changes_nothing_of_what_flowgen_counts(tmp_path, changed_tool):
    """With Docker's `host`, all of this host's users can; in namespaces and on a bridge nobody but root."""
    need("docker", "host")
    ports = set()
    changed_tool("server", lambda argv, pair, *_: ports.add(pair.port) or argv)

    def intrude(_):
        with socket.socket(type=socket.SOCK_DGRAM) as udp:
            for port in ports:
                udp.sendto(bytes(1000), ("127.0.0.1", port))
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as tcp:
                    tcp.sendall(bytes(1000))

    asked = asking("flowgen", backend="docker", driver="host", udp_share=0.5, udp_rate_bps=2e7, duration_s=2)
    run = measured(asked, root=tmp_path, watch=intrude)
    assert list(run.flows["status"]) == ["ok"] * 2, run.flows["error"]
    for pair in range(2):
        assert "refused without the token: " in run.raw[f"server-{pair}.err"]
        assert len(run.raw[f"server-{pair}.out"].splitlines()) == 1  # its own client's


# --- secrets

NAMES = ("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "DB_PASSWORD", "OPENAI_API_KEY", "SOMETHING_NOBODY_KNOWS")


def contents(file):
    """All that is in a file, also where it is compressed."""
    if file.suffix == ".parquet":
        return pd.read_parquet(file).to_json()
    return file.read_text(errors="replace")


def words_of(process):
    return " ".join(process.cmdline())


def seen_of(process, secret_values, seen):
    """Notes, of each process that descends from that one, its command and whether it has a secret.

    Between fork and exec a process shows its parent's command and environment. Such a one is left to the next look: by
    then it has its own, or has its parent's for good, which are noted as that one's. The command is read before the
    environment, so that an exec in between cannot lend it another's.
    """
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.Error, OSError):
            words = words_of(child)
            environment = Path(f"/proc/{child.pid}/environ").read_bytes().decode(errors="replace")
            if words == words_of(psutil.Process(child.ppid())):
                continue
            seen.add((words, any(value in words for value in secret_values)))
            if any(value in environment for value in secret_values):
                seen.add((words, "environment"))


#: Forks; the child tells, and becomes another program when it hears of it.
FORKS_FIRST = """
import os
if os.fork():
    os.wait()
else:
    os.write(1, b"forked")
    os.read(0, 1)
    os.execvp("cat", ["cat", "-u"])
"""


def test_a_process_is_noted_with_what_is_its_own():
    secret, seen = secrets.token_hex(16), set()
    command = [sys.executable, "-c", FORKS_FIRST]
    environment = {**os.environ, "PLANTED": secret}
    with psutil.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout.read(6) == b"forked"
        seen_of(parent, [secret], seen)
        assert not seen  # it shows its parent's command and environment
        parent.stdin.write(b"\n")
        parent.stdin.flush()
        while ("cat -u", False) not in seen and parent.poll() is None:
            seen_of(parent, [secret], seen)
        parent.stdin.close()
    assert {each for each in seen if each[0]} == {("cat -u", False), ("cat -u", "environment")}


def containers_of(process):
    """Docker's containers whose owner is this process or one that descends from it, as Docker describes them."""
    import docker

    ours = {str(process.pid), *(str(child.pid) for child in process.children(recursive=True))}
    with contextlib.closing(docker.from_env(timeout=20)) as client:
        for each in client.api.containers(filters={"label": "pairlab.owner"}):
            if each["Labels"]["pairlab.owner"].partition("@")[0] in ours:
                with contextlib.suppress(docker.errors.APIError):
                    yield client.api.inspect_container(each["Id"])


@pytest.mark.whole
@pytest.mark.parametrize("backend", any_backend())
def test_records_and_children_have_no_secrets_of_the_environment(backend, tmp_path):
    need(backend, "bridge", "flowgen")
    planted = {name: secrets.token_hex(16) for name in NAMES}
    asked = {"backend": backend, "workload": "flowgen", "driver": "bridge", "pairs": 2, "duration_s": 3.0}
    command = [sys.executable, "-c", "from pairlab.cli import main; main()", "run", "throughput"]
    command += [word for name, value in asked.items() for word in ("-p", name, str(value))]
    seen, described = set(), []
    with (tmp_path / "log").open("w") as log:
        runner = psutil.Popen(
            command, env={**os.environ, **planted, "PAIRLAB_RUNS": str(tmp_path / "runs")}, stdout=log, stderr=log
        )
        while runner.poll() is None:
            seen_of(runner, planted.values(), seen)
            if backend == "docker" and not described:
                described = [str(each) for each in containers_of(runner)]
            with contextlib.suppress(psutil.TimeoutExpired):
                runner.wait(0.05)
    (place,) = store.directories(tmp_path / "runs")
    assert store.read(place).status in ("ok", "invalid"), (tmp_path / "log").read_text()  # invalid: others were busy
    files = [file for file in place.rglob("*") if file.is_file()]
    assert {"run.json", "notebook.ipynb", "flows.parquet"} <= {file.name for file in files}
    for file in [*files, tmp_path / "log"]:
        assert not any(value in contents(file) for value in planted.values()), file

    assert not [words for words, where in seen if where is True]
    # The kernel, forked from its parent, runs the user's own notebook and has it all; nothing that it starts has, but
    # for the system's own uname(1), which debugpy calls while it is imported (platform.platform).
    having = {words for words, where in seen if where == "environment"} - {"uname -p"}
    assert all("pairlab.batch.kernel_parent" in words for words in having if words), having
    assert any("pairlab.batch.kernel_parent" in words for words in having)
    if backend == "netns":
        assert any(" client --connect " in words for words, _ in seen)
    else:
        assert described
        assert not any(value in each for each in described for value in planted.values())
        assert any("pairlab.testbed.docker.reaper" in words for words, _ in seen)


def test_a_users_proxy_is_not_put_into_containers(tmp_path, monkeypatch):
    """docker(1) gives containers the proxies of ~/.docker/config.json, passwords and all, unless told not to."""
    need("docker")
    (tmp_path / "config.json").write_text('{"proxies": {"default": {"httpProxy": "http://me:hunter2@proxy:1"}}}')
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with open_testbed(Spec(backend="docker", driver="bridge", workload="flowgen")) as bed:
        told = bed.pairs[0].client.run(["cat", "/proc/self/environ"])
        assert told.returncode == 0
        assert "PATH=" in told.stdout
        assert "hunter2" not in told.stdout
