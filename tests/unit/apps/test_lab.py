"""`pairlab lab` amid Jupyter's configuration of its user."""

import asyncio
import json
import re
import ssl
import sys

import pytest

from pairlab.apps import lab
from pairlab.errors import BadInput


@pytest.fixture
def started(tmp_path, monkeypatch, capsys):
    """Starts the server, but for its loop, with that file of configuration; returns it and what it printed."""
    for kind in ("CONFIG", "RUNTIME", "DATA"):
        monkeypatch.setenv(f"JUPYTER_{kind}_DIR", str(tmp_path))
    monkeypatch.setattr(lab.Server, "start_ioloop", lambda self: None)
    monkeypatch.setattr(lab.Server, "init_signal", lambda self: None)
    monkeypatch.setattr(lab, "WORKSPACES", tmp_path / "workspaces")

    def started(text, file="jupyter_server_config.py", *arguments):
        (tmp_path / file).write_text(text)
        lab.main(["--no-browser", "--ServerApp.port=0", *arguments])
        return lab.Server.instance(), capsys.readouterr().out

    # The main thread has a loop before the server looks for one: else what Python warns of, from 3.12 on, is whether an
    # earlier test had one.
    with asyncio.Runner() as runner:
        runner.get_loop()
        yield started
    if lab.Server.initialized():
        if server := getattr(lab.Server.instance(), "http_server", None):
            server.stop()
        lab.Server.clear_instance()


@pytest.fixture
def spec_of_another_python(tmp_path):
    place = tmp_path / "kernels" / "python3" / "kernel.json"
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps({"argv": ["/usr/bin/other", "-m", "ipykernel"], "display_name": "Other"}))


def test_the_address_is_http(started):
    _, said = started("")
    assert re.search(r"the workbench is at http://127\.0\.0\.1:\d+/lab/\S+\?token=\w+\n", said)


def test_the_address_is_https_where_there_is_a_certificate(started, tmp_path, monkeypatch):
    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", lambda *given, **named: None)
    (tmp_path / "cert.pem").touch()
    _, said = started(f"c.ServerApp.certfile = {str(tmp_path / 'cert.pem')!r}")
    assert re.search(r"the workbench is at https://127\.0\.0\.1:\d+/lab/", said)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('c.ServerApp.certfile = "/proc/nothing.pem"', r"certfile\) sets: /proc/nothing\.pem: No such file or dir"),
        ('c.ServerApp.certfile = "/etc/hostname"', r"certfile\) sets: /etc/hostname: \[SSL\]"),
        (
            'c.ServerApp.kernel_manager_class = "of.a.cluster"',
            "manager_class' trait of Server .* could not be imported",
        ),
        (
            'c.ServerApp.contents_manager_class = "s3.Manager"',
            "manager_class' trait of Server .* could not be imported",
        ),
        (
            'c.MappingKernelManager.cull_interval = "often"',
            r"\(MappingKernelManager\.cull_interval\) sets: .*'often'\. Co",
        ),
        ("c.LabApp.app_dir = 5", r"\(LabApp\.app_dir\) sets: .*not the int 5\. Correct it there, or leave it out$"),
        ("c.ServerApp.port = 1\nc.ServerApp.ip =", "line 2: SyntaxError: invalid syntax"),
        ("import a_module_of_another_python", "line 1: ModuleNotFoundError"),
    ],
)
def test_what_no_server_can_be_started_with_is_said_with_the_file_and_in_one_line(text, why, started, tmp_path, capsys):
    with pytest.raises(BadInput, match=why) as refused:
        started(text)
    assert str(tmp_path / "jupyter_server_config.py") in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "Bad config" not in capsys.readouterr().err


def test_what_a_file_of_json_or_the_command_line_sets_is_found_there(started, tmp_path):
    with pytest.raises(BadInput, match=r"jupyter_server_config\.json \(ServerApp\.certfile\)"):
        started('{"ServerApp": {"certfile": "/proc/nothing.pem"}}', "jupyter_server_config.json")
    lab.Server.clear_instance()
    with pytest.raises(BadInput, match=r"its command line or environment sets: /proc/nothing\.key"):
        started("{}", "jupyter_server_config.json", f"--certfile={__file__}", "--keyfile=/proc/nothing.key")


def test_the_kernel_is_this_interpreter_whatever_is_configured(started, spec_of_another_python, monkeypatch):
    monkeypatch.setenv("JUPYTER_GATEWAY_URL", "http://127.0.0.1:1")
    server, said = started(
        'c.KernelSpecManager.allowed_kernelspecs = {"ir"}\n'
        'c.ServerApp.kernel_spec_manager_class = "of.a.site"\n'
        'c.MultiKernelManager.default_kernel_name = "ir"\n'
    )
    (spec,) = server.kernel_spec_manager.get_all_specs().values()
    assert (spec["spec"]["argv"][0], spec["spec"]["display_name"]) == (sys.executable, "pairlab")
    assert server.kernel_manager.default_kernel_name == "python3"
    assert not server.gateway_config.gateway_enabled
    assert "jupyter_server_config.py (KernelSpecManager.allowed_kernelspecs) allows the kernels ir only" in said
