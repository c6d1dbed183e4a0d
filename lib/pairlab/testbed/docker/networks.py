"""The networks of Docker's own that endpoints are put on."""

from collections.abc import Sequence
from typing import Any

from docker.types import IPAMConfig, IPAMPool

from pairlab.testbed.contracts import NetworkDriver
from pairlab.testbed.docker.engine import Engine
from pairlab.testbed.endpoints import EndpointPlan


def create(
    engine: Engine, driver: NetworkDriver, parent: str, mtu_bytes: int, subnet: str = "", gateway: str = ""
) -> str:
    """The network to put the driver's containers in: the name of a new one, or Docker's `host` or `none`.

    parent: the link that it is on, where the driver needs one. subnet: of its containers, and gateway, an address in it
    that none of them gets; empty: Docker chooses.
    """
    if driver.docker is None or driver.docker.mode == "container":
        return "none"
    if driver.docker.mode != "network":
        return driver.docker.mode
    options = {"com.docker.network.driver.mtu": str(mtu_bytes)} if mtu_bytes else {}
    options |= {**driver.docker.options, **({"parent": parent} if parent else {})}
    pools = [IPAMPool(subnet=subnet, gateway=gateway or None)] if subnet else []
    name = f"pairlab-{engine.run}"
    of_swarm: dict[str, Any] = {"attachable": True, "internal": True, "scope": "swarm"} if driver.docker.swarm else {}
    engine.client.api.create_network(
        name,
        driver=driver.docker.driver,
        options=options,
        labels=engine.labels,
        ipam=IPAMConfig(pool_configs=pools) if pools else None,
        **of_swarm,
    )
    return name


def addresses(engine: Engine, endpoints: Sequence[EndpointPlan], network: str) -> dict[str, str]:
    """The addresses that this engine's containers have on that network, by endpoint."""
    if network in ("host", "none"):
        return {each.name: "127.0.0.1" for each in endpoints}
    found = engine.client.api.inspect_network(network)["Containers"] or {}
    told = {each["Name"].removeprefix(f"pairlab-{engine.run}-"): each["IPv4Address"] for each in found.values()}
    return {each.name: told[each.name].split("/")[0] for each in endpoints}
