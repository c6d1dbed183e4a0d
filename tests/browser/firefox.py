"""Firefox as Debian has it, headless: driven by WebDriver BiDi, which it speaks by itself (w3.org/TR/webdriver-bidi).

Playwright drives only a Firefox of its own making.
"""

import base64
import contextlib
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import websocket

from tests.browser.jupyter import PATIENCE_S
from tests.support import host

#: Nothing but this machine is reached: all else goes to a proxy that there is not.
PREFERENCES = {
    "network.proxy.type": 1,
    "network.proxy.no_proxies_on": "127.0.0.1, localhost",
    **{f"network.proxy.{scheme}": "127.0.0.1" for scheme in ("http", "ssl")},
    **{f"network.proxy.{scheme}_port": 9 for scheme in ("http", "ssl")},
    "network.trr.mode": 5,
    "network.dns.disablePrefetch": True,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "app.normandy.enabled": False,
}
LISTENS = re.compile(r"WebDriver BiDi listening on (ws://\S+)")
#: Comes back with what the function says, once that is neither false nor null.
UNTIL = """async () => {
  for (;;) {
    const found = (%s)();
    if (found) return found;
    await new Promise(next => setTimeout(next, 50));
  }
}"""


class Page:
    """A tab of a Firefox that runs."""

    def __init__(self, address: str):
        self._socket = websocket.create_connection(f"{address}/session", timeout=PATIENCE_S, suppress_origin=True)
        self._number = 0
        self._call("session.new", capabilities={})
        self._context = self._call("browsingContext.create", type="tab")["context"]

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while (answer := json.loads(self._socket.recv())).get("id") != self._number:
            pass  # an event
        assert answer["type"] == "success", answer
        return answer["result"]

    def open(self, address: str) -> None:
        self._call("browsingContext.navigate", context=self._context, url=address, wait="interactive")

    def set_size(self, width: int, height: int) -> None:
        self._call("browsingContext.setViewport", context=self._context, viewport={"width": width, "height": height})

    def evaluate(self, function: str) -> Any:
        """What that function in JavaScript returns, as JSON can hold it; waits for a promise."""
        answer = self._evaluate(f"(async () => JSON.stringify(await ({function})()) ?? 'null')()")
        return json.loads(answer["value"])

    def _evaluate(self, expression: str) -> dict[str, Any]:
        target = {"context": self._context}
        answer = self._call("script.evaluate", expression=expression, target=target, awaitPromise=True)
        assert answer["type"] == "success", answer["exceptionDetails"]["text"]
        return answer["result"]

    def wait_for(self, function: str) -> Any:
        """The first of its values that is neither false nor null."""
        return self.evaluate(UNTIL % function)

    def click(self, selector: str) -> None:
        """With the pointer, in the middle of the first such element that is visible, as soon as there is one."""
        seen = f"[...document.querySelectorAll({json.dumps(selector)})].find(each => each.checkVisibility())"
        scrolled = f"(await ({UNTIL % f'() => {seen}'})()).scrollIntoView({{block: 'center'}}), {seen}"
        element = {"sharedId": self._evaluate(f"(async () => ({scrolled}))()")["sharedId"]}
        moves = [
            {"type": "pointerMove", "x": 0, "y": 0, "origin": {"type": "element", "element": element}},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]
        self._act({"type": "pointer", "id": "mouse", "actions": moves})

    def type(self, text: str) -> None:
        """Presses these keys, one after the other."""
        keys = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self._act({"type": "key", "id": "keyboard", "actions": keys})

    def _act(self, source: dict[str, Any]) -> None:
        self._call("input.performActions", context=self._context, actions=[source])

    def screenshot(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(
            base64.b64decode(self._call("browsingContext.captureScreenshot", context=self._context)["data"])
        )

    def close(self) -> None:
        self._call("browser.close")
        self._socket.close()


@contextlib.contextmanager
def firefox(program: str, profile: Path) -> Iterator[Page]:
    """One that runs in this block. Its processes are none of pairlab's, so they do not bear this session's mark."""
    profile.mkdir()
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in PREFERENCES.items()]
    (profile / "user.js").write_text("".join(lines))
    unmarked = {name: value for name, value in os.environ.items() if name != host.MARK} | {"HOME": str(profile)}
    command = [program, "--headless", "--no-remote", "--remote-debugging-port=0", "--profile", str(profile)]
    with (profile / "printed").open("w") as printed:
        process = subprocess.Popen(command, stdout=printed, stderr=printed, env=unmarked)
    try:
        page = Page(_address(process, profile / "printed"))
        yield page
        page.close()
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def _address(process: subprocess.Popen, printed: Path) -> str:
    """Where it listens, once it says so."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := LISTENS.search(printed.read_text())):
        assert process.poll() is None, printed.read_text()
        assert time.monotonic() < deadline, printed.read_text()
        time.sleep(0.05)
    return found[1]
