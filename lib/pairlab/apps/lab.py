"""`make lab`: JupyterLab on the notebooks, opened at the workbench, for the user who starts it only.

A notebook server executes code, so it listens on loopback and requires a token, whatever this user's Jupyter
configuration says. The token is JUPYTER_TOKEN, or a random one; it is not on the command line, which all users of a
host can read, but in the address that is printed. Nothing is fetched from the internet: no news, no updates, no list of
extensions.
"""

import os
import secrets
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import JupyterServerAuthWarning
from jupyterlab.labapp import LabApp
from jupyterlab_server.handlers import LabHandler
from jupyterlab_server.workspaces_handler import WorkspacesManager
from traitlets.config import Config

from pairlab import paths
from pairlab.testbed import registry

#: The layout that JupyterLab opens with, as its command "Save Current Workspace As" writes it.
WORKSPACE = paths.DATA / "workbench.jupyterlab-workspace"
#: Where JupyterLab keeps its working copy, outside the files of the checkout.
WORKSPACES = paths.ROOT / ".cache" / "lab" / "workspaces"
NEWS = "@jupyterlab/apputils-extension:announcements"
ADDRESS = "/lab/workspaces/workbench/tree/workbench.ipynb"


def without_news(handler: LabHandler, page: dict[str, Any]) -> dict[str, Any]:
    """JupyterLab's page without the extension that fetches news."""
    return page | {"disabledExtensions": [*page.get("disabledExtensions", []), NEWS]}


def settings() -> Config:
    """Settings that override all other configuration."""
    server = {
        "ip": "127.0.0.1",
        "sock": "",
        "allow_remote_access": False,  # also not by a foreign host name that resolves to 127.0.0.1 (DNS rebinding)
        "allow_unauthenticated_access": False,
        "allow_root": True,  # for users who run Docker measurements as root
        "tornado_settings": {"page_config_hook": without_news},
    }
    identity = {"token": os.environ.get("JUPYTER_TOKEN") or secrets.token_hex(24)}
    lab = {
        "default_url": ADDRESS,
        "news_url": None,
        "check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
        "extension_manager": "readonly",
        "workspaces_dir": str(WORKSPACES),
    }
    return Config(
        Application={"log_level": "WARN"},  # its address is printed below
        KernelManager={"transport_encryption": "auto"},  # between server and kernels, over loopback
        ServerApp=server,
        LabApp=lab,
        IdentityProvider=identity,
        PasswordIdentityProvider=identity,
    )


class Server(ServerApp):
    """Jupyter's server. Our settings are applied last: an extension's configuration files would override options."""

    name = ServerApp.name  # the name of its configuration files
    _ours = settings()

    def update_config(self, config: Config) -> None:
        merged = Config(config)
        merged.merge(self._ours)
        super().update_config(merged)

    def start_app(self) -> None:
        """Prints the address once it listens."""
        super().start_app()
        address = f"http://{self.ip}:{self.port}{self.base_url.rstrip('/')}{self.default_url}"
        say(f"the workbench is at {address}?token={self.identity_provider.token}")
        say("press Ctrl-C twice to stop it and everything that runs in it")


class Lab(LabApp):
    """JupyterLab on that server."""

    serverapp_class = Server

    @classmethod
    def get_extension_package(cls) -> str:
        """The package that the server loads: JupyterLab, not this module."""
        return LabApp.__module__.partition(".")[0]


def backend_lines() -> Iterator[str]:
    """A line for each backend: that it is available, or what it lacks and how to get it."""
    for name in registry.backends.names():
        backend = registry.backends.get(name)()
        lacks = "; ".join(map(str, backend.lacks()))
        state = f"not available: {lacks}" if lacks else f"available: {backend.summary}"
        yield f"backend {name} is {state}"


def has_screen() -> bool:
    """Whether a graphical browser can be opened here."""
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


def say(line: str) -> None:
    """Prints a line."""
    print(f"pairlab: {line}", flush=True)


def main(arguments: Sequence[str]) -> None:
    """Runs until it is stopped. arguments: options of JupyterLab, such as --no-browser."""
    for line in backend_lines():
        say(line)
    WorkspacesManager(str(WORKSPACES)).save("workbench", WORKSPACE.read_text(encoding="utf-8"))
    # It warns of handlers that need no token, which this server refuses.
    warnings.filterwarnings("ignore", category=JupyterServerAuthWarning)
    no_browser = [] if has_screen() or "--no-browser" in arguments else ["--no-browser"]
    Lab.launch_instance([str(paths.NOTEBOOKS), *no_browser, *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
