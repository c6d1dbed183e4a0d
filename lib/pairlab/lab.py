"""`make lab`: JupyterLab over the notebooks, opened on the workbench, for nobody but whoever starts it.

A notebook server runs what it is told, so it listens on loopback and asks for a token, whatever Jupyter's own
configuration of this user says. The token is JUPYTER_TOKEN, or drawn anew; it is not on the command line, which all
users of a host can read, but in the address that is printed here. Nothing is fetched from outside: no news, no
updates, no list of extensions.
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

#: The layout that JupyterLab opens with, as its "Save Current Workspace As" writes it.
WORKSPACE = paths.DATA / "workbench.jupyterlab-workspace"
#: Where it is kept while it is used, so that using it changes nothing in the checkout.
WORKSPACES = paths.ROOT / ".cache" / "lab" / "workspaces"
NEWS = "@jupyterlab/apputils-extension:announcements"
ADDRESS = "/lab/workspaces/workbench/tree/workbench.ipynb"


def without_news(handler: LabHandler, page: dict[str, Any]) -> dict[str, Any]:
    """JupyterLab's page without the extension that asks whether to fetch news, and fetches them."""
    return page | {"disabledExtensions": [*page.get("disabledExtensions", []), NEWS]}


def settings() -> Config:
    """What holds, whatever else is configured."""
    server = {
        "ip": "127.0.0.1",
        "sock": "",
        "allow_remote_access": False,  # nor by a name that another site has made point at 127.0.0.1
        "allow_unauthenticated_access": False,
        "allow_root": True,  # Docker needs it, and root is who started this
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
        Application={"log_level": "WARN"},  # what is wrong; where it is, we say ourselves
        KernelManager={"transport_encryption": "auto"},  # between the server and the kernels, over loopback
        ServerApp=server,
        LabApp=lab,
        IdentityProvider=identity,
        PasswordIdentityProvider=identity,
    )


class Server(ServerApp):
    """Jupyter's server, with our settings last: those of files that an extension loads would go before options."""

    name = ServerApp.name  # of its configuration files
    _ours = settings()

    def update_config(self, config: Config) -> None:
        merged = Config(config)
        merged.merge(self._ours)
        super().update_config(merged)

    def start_app(self) -> None:
        """Says where it is, once it listens."""
        super().start_app()
        address = f"http://{self.ip}:{self.port}{self.base_url.rstrip('/')}{self.default_url}"
        say(f"the workbench is at {address}?token={self.identity_provider.token}")
        say("Ctrl-C, twice, ends it and all that it runs")


class Lab(LabApp):
    """JupyterLab on that server."""

    serverapp_class = Server

    @classmethod
    def get_extension_package(cls) -> str:
        """What the server loads: JupyterLab itself, not this module."""
        return LabApp.__module__.partition(".")[0]


def backends_told() -> Iterator[str]:
    """What can be measured in here, a line for each backend: that it is there, or what it lacks and how to get it."""
    for name in registry.backends.names():
        backend = registry.backends.get(name)()
        lacks = "; ".join(map(str, backend.lacks()))
        yield f"backend {name} is missing: {lacks}" if lacks else f"backend {name} is there: {backend.summary}"


def has_screen() -> bool:
    """Whether a browser can be opened here, rather than one in the terminal."""
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


def say(line: str) -> None:
    """Tells whoever started it."""
    print(f"pairlab: {line}", flush=True)


def main(arguments: Sequence[str]) -> None:
    """Runs until it is stopped. arguments: more of JupyterLab's own, such as --no-browser."""
    for line in backends_told():
        say(line)
    WorkspacesManager(str(WORKSPACES)).save("workbench", WORKSPACE.read_text(encoding="utf-8"))
    # Of what asks for no token, which is refused here.
    warnings.filterwarnings("ignore", category=JupyterServerAuthWarning)
    blind = [] if has_screen() or "--no-browser" in arguments else ["--no-browser"]
    Lab.launch_instance([str(paths.NOTEBOOKS), *blind, *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
