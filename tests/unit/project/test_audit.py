"""`make audit`: what it says, and with which status, of databases that answer, that do not, and that answer nonsense.

No database is reached by these tests: a server on loopback takes its place.
"""

import http.server
import json
import socket
import subprocess
import sys
import threading

import pytest

from pairlab import paths

AUDIT = paths.ROOT / "lib" / "audit.py"
NONE_KNOWN, VULNERABLE, NOT_CHECKED = 0, 1, 3

LOCK = """\
pyyaml==6.0.2 ; python_full_version >= '3.11' \\
    --hash=sha256:00
    # via pairlab
Jinja2[i18n]==3.1.0 \\
    --hash=sha256:00
"""


@pytest.fixture
def lock(tmp_path):
    file = tmp_path / "some.lock"
    file.write_text(LOCK)
    return file


@pytest.fixture
def database():
    """database(answer) -> its address; answer takes the queries and returns (status, body)."""
    servers = []

    def serve(answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, body = answer(asked["queries"])
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        servers.append(http.server.HTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever).start()
        return f"http://127.0.0.1:{servers[-1].server_port}/v1/querybatch"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def audit(*arguments):
    return subprocess.run(
        [sys.executable, "-I", AUDIT, *map(str, arguments)],
        env={"no_proxy": "*"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_packages_of_which_nothing_is_known_pass(lock, database):
    asked = []

    def answer(queries):
        asked.extend(queries)
        return 200, json.dumps({"results": [{} for _ in queries]}).encode()

    done = audit("--database", database(answer), lock)
    assert done.returncode == NONE_KNOWN, done.stderr
    assert done.stdout == "audit: none of 2 packages has a known vulnerability\n"
    assert {(each["package"]["name"], each["version"], each["package"]["ecosystem"]) for each in asked} == {
        ("pyyaml", "6.0.2", "PyPI"),
        ("Jinja2", "3.1.0", "PyPI"),
    }


def test_a_vulnerable_package_is_named_with_where_to_read_of_it(lock, database):
    def answer(queries):
        known = {"Jinja2": [{"id": "GHSA-1", "modified": "x"}, {"id": "PYSEC-2"}]}
        results = [{"vulns": known[each["package"]["name"]]} if each["version"] == "3.1.0" else {} for each in queries]
        return 200, json.dumps({"results": results}).encode()

    done = audit("--database", database(answer), lock)
    assert done.returncode == VULNERABLE
    assert "audit: Jinja2 3.1.0: https://osv.dev/GHSA-1, https://osv.dev/PYSEC-2\n" in done.stdout
    assert "VULNERABLE: 1 of 2 packages" in done.stdout
    assert "pyyaml" not in done.stdout


def test_no_database_is_not_checked_and_neither_good_nor_bad(lock):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        done = audit("--database", f"http://127.0.0.1:{nobody.getsockname()[1]}/", lock)
    assert done.returncode == NOT_CHECKED
    assert done.stderr.startswith("audit: NOT CHECKED: no database answers at http://127.0.0.1:")
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b"{}"),
        (200, b"<html>log in to this network first</html>"),
        (200, b'{"results": []}'),
        (200, b'{"results": [1, 2]}'),
        (200, b'{"results": [{"vulns": [{}]}, {}]}'),
        (200, b"\xff\xfe"),
        (200, b"[" * 100),
    ],
)
def test_an_answer_that_cannot_be_relied_on_is_not_checked(lock, database, status, body):
    done = audit("--database", database(lambda queries: (status, body)), lock)
    assert done.returncode == NOT_CHECKED
    assert "NOT CHECKED" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("told", [None, "", "nothing pinned\n"])
def test_a_lock_that_pins_nothing_is_not_checked(tmp_path, told):
    file = tmp_path / "some.lock"
    if told is not None:
        file.write_text(told)
    assert audit("--database", "http://127.0.0.1:9/", file).returncode == NOT_CHECKED


def test_every_package_of_our_own_locks_is_asked_about(database):
    asked = []

    def answer(queries):
        asked.extend(queries)
        return 200, json.dumps({"results": [{} for _ in queries]}).encode()

    assert audit("--database", database(answer)).returncode == NONE_KNOWN
    locks = [file.read_text() for file in (paths.ROOT / "lib" / "requirements").glob("*.lock")]
    pinned = {line.split("==")[0] for lock in locks for line in lock.splitlines() if "==" in line and line[0] != " "}
    assert {each["package"]["name"] for each in asked} == pinned
    assert len(pinned) > 100
