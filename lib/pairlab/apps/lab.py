"""`pairlab lab`: JupyterLab on the notebooks, opened at the workbench, for the user who starts it only.

A notebook server executes code, so it listens on loopback and requires a token, regardless of the user's Jupyter
configuration. The token is JUPYTER_TOKEN, or a random one; it is in the printed address, and not on the command line,
which all users of a host can read. The server fetches nothing from the internet: no news, updates or list of
extensions.
"""

import os
import secrets
import ssl
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jupyter_client.kernelspec import NATIVE_KERNEL_NAME
from jupyter_server.base.handlers import APIHandler
from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import JupyterServerAuthWarning, url_path_join
from jupyterlab.labapp import LabApp
from jupyterlab_server.handlers import LabHandler
from jupyterlab_server.workspaces_handler import WorkspacesManager
from tornado import web
from traitlets.config import Config

from pairlab import paths
from pairlab.apps import jupyter_config
from pairlab.base.printing import echo
from pairlab.batch import experiments, kernels
from pairlab.errors import BadInput, PairlabError
from pairlab.testbed import registry
from pairlab.testbed.host import lock

#: The layout that JupyterLab opens with, as its command "Save Current Workspace As" writes it.
WORKSPACE = paths.DATA / "workbench.jupyterlab-workspace"
#: The folder of JupyterLab's working copy, outside the checkout.
WORKSPACES = paths.cache() / "lab" / "workspaces"
#: pairlab's JupyterLab extensions: one runs the workbench's cell when the page opens, one shows in the status bar who
#: measures.
EXTENSIONS = paths.DATA / "labextensions"
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
        "kernel_spec_manager_class": kernels.KernelSpecs,
        "tornado_settings": {"page_config_hook": without_news},
    }
    identity = {"token": os.environ.get("JUPYTER_TOKEN") or secrets.token_hex(24)}
    lab = {
        "default_url": ADDRESS,
        "news_url": None,
        "check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
        "extension_manager": "readonly",
        "workspaces_dir": str(WORKSPACES),
        "extra_labextensions_path": [str(EXTENSIONS)],
    }
    return Config(
        Application={"log_level": "WARN"},  # its address is printed below
        AsyncMappingKernelManager={"default_kernel_name": NATIVE_KERNEL_NAME},
        GatewayClient={"url": ""},  # kernels are on this host, as measurements are
        KernelManager={"transport_encryption": "auto"},  # between server and kernels, over loopback
        ServerApp=server,
        LabApp=lab,
        IdentityProvider=identity,
        PasswordIdentityProvider=identity,
    )


class Measuring(APIHandler):
    """The present measurement on this host, for the status bar: {"who": text, or empty}."""

    @web.authenticated
    def get(self) -> None:
        self.finish({"who": lock.holder()})


class NewExperiment(APIHandler):
    """Makes the notebook of a new experiment, asked by {"name": text}: {"path": below notebooks/}, or {"message": why
    not}.
    """

    @web.authenticated
    def post(self) -> None:
        try:
            place = experiments.new(str((self.get_json_body() or {}).get("name", "")))
        except (PairlabError, OSError) as error:
            self.set_status(400)
            self.finish({"message": str(error)})
            return
        self.finish({"path": str(place.relative_to(paths.STUDY / "notebooks"))})


class Server(ServerApp):
    """Jupyter's server. Our settings are applied last: an extension's configuration files would override options."""

    name = ServerApp.name  # the name of its configuration files
    _ours = settings()

    def update_config(self, config: Config) -> None:
        merged = Config(config)
        merged.merge(self._ours)
        super().update_config(merged)

    def init_configurables(self) -> None:
        """Refuses what no server can be started with, before anything is."""
        jupyter_config.refuse()
        self._check_certificate()
        super().init_configurables()

    def _check_certificate(self) -> None:
        if not self.certfile:
            return
        file = "certfile"
        try:
            for file in ("client_ca", "keyfile", "certfile"):
                if place := getattr(self, file):
                    Path(place).read_bytes()
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.client_ca or None)
            context.load_cert_chain(self.certfile, self.keyfile or None, password="")  # one with a password asks for it
        except OSError as error:
            raise jupyter_config.refused(file, f"{getattr(self, file)}: {error.strerror or error}") from None

    def init_webapp(self) -> None:
        """Adds the handlers of our extensions in the page (EXTENSIONS)."""
        super().init_webapp()
        ours = {"measuring": Measuring, "experiments": NewExperiment}
        handlers = [(url_path_join(self.base_url, "pairlab", name), handler) for name, handler in ours.items()]
        self.web_app.add_handlers(".*$", handlers)

    def start_app(self) -> None:
        """Starts to listen, and prints the address."""
        super().start_app()
        address = url_path_join(self.connection_url, self.default_url)
        say(f"the workbench is at {address}?{urlencode({'token': self.identity_provider.token})}")
        allowed = self.kernel_spec_manager.allowed_kernelspecs if self.kernel_spec_manager else ()
        if allowed and NATIVE_KERNEL_NAME not in allowed:
            file = jupyter_config.where("allowed_kernelspecs")
            say(f"{file} allows the kernels {', '.join(sorted(allowed))} only; pairlab's own is offered, too")
        say("press Ctrl-C twice to stop it and everything that runs in it")


class Lab(LabApp):
    serverapp_class = Server

    @classmethod
    def get_extension_package(cls) -> str:
        """The package that the server loads: JupyterLab, not this module."""
        return LabApp.__module__.partition(".")[0]


def say(line: str) -> None:
    echo(f"pairlab: {line}")


def main(arguments: Sequence[str]) -> None:
    """Runs until it is stopped. arguments: options of JupyterLab, such as --no-browser."""
    notebooks = paths.STUDY / "notebooks"
    if not (notebooks / "workbench.ipynb").exists():
        raise BadInput(f"no workbench in {notebooks}: `pairlab init STUDY` makes a study that has one; call this there")
    for name in registry.backends.names():
        backend = registry.backends.get(name)()
        lacks = "; ".join(map(str, backend.missing()))
        say(f"backend {name} is {f'not available: {lacks}' if lacks else f'available: {backend.summary}'}")
    WorkspacesManager(str(WORKSPACES)).save("workbench", WORKSPACE.read_text(encoding="utf-8"))
    # Jupyter warns of handlers without a token, which this server refuses.
    warnings.filterwarnings("ignore", category=JupyterServerAuthWarning)
    has_screen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    no_browser = [] if has_screen or "--no-browser" in arguments else ["--no-browser"]
    with jupyter_config.noted():
        Lab.launch_instance([str(notebooks), *no_browser, *arguments])
