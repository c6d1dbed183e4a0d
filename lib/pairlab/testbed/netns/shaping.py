"""Links of known rate and known loss: a tool's goodput over them can be calculated, and compared with its reports.

A token bucket filter (tc-tbf(8)) limits a link's rate where packets leave eth0. It counts frames as the driver
hands them over: the IP packet and 14 bytes of Ethernet header, of each segment in an aggregate (GSO), but no preamble,
checksum or gap. For TCP with timestamps over an MTU of 1500 bytes, 1448 of each 1514 bytes are payload.

Loss is iptables' statistic match (iptables-extensions(8)) where packets enter at eth0, handshakes included. A GSO
aggregate is lost as a whole, so that one loss may cost many segments.

This module imports nothing heavy, as the process inside a sandbox uses it.
"""

import errno
import math
import os
import socket
from collections.abc import Mapping
from typing import Any

from pairlab.errors import BadSpec, TestbedError, Unavailable
from pairlab.testbed.endpoints import Link
from pairlab.testbed.links import rtnetlink
from pairlab.testbed.links.lan import run
from pairlab.testbed.links.namespaces import inside
from pairlab.testbed.requirements import MissingRequirement, Program, lacking

LINK = "eth0"
ETHERNET_BYTES = 14
IPTABLES = Program("iptables", "iptables")
NO_FILTER = MissingRequirement("this kernel has no token bucket filter", "sudo modprobe sch_tbf, or ask for no rate")

#: Below, a bucket would hold seconds of traffic; above, bytes per second do not fit 32 bits.
LEAST_RATE_BPS, MOST_RATE_BPS = 1e5, 34e9

#: A bucket must hold the largest packet handed over in one piece (64 KiB and the headers of its 46 segments), or tbf
#: cuts it up. And it holds what a link carries while the filter's timer is late, which would be lost to the link: a
#: virtual CPU is away for milliseconds at times. A full one at the start makes 2 s read 0.2 % too much.
LEAST_BURST_BYTES, BURST_S = 80 * 1024, 0.004

#: A paced link (its flows are timed) sends bursts of at most a frame and the bytes due while a kernel timer is late, up
#: to 80 us as measured; it then sends at PEAK times its rate until it has caught up. Above the bound, a burst is the
#: largest packet after all: cutting up so many would take a CPU.
LATE_S, PEAK, MOST_CUT_UP_BYTES = 80e-6, 1.01, 1 << 15

#: The queue before the filter holds all that a sender queues (TCP's small queues, a UDP socket's buffer), without loss.
LEAST_QUEUE_BYTES, QUEUE_S = 1 << 20, 0.05


def require_rate(name: str, rate_bps: float) -> None:
    """Raises BadSpec, naming the parameter, where no link can be limited to that rate. 0: no limit."""
    if rate_bps and not LEAST_RATE_BPS <= rate_bps <= MOST_RATE_BPS:
        raise BadSpec(f"{name}: must be from {LEAST_RATE_BPS:g} to {MOST_RATE_BPS:g} (or 0), not {rate_bps:g}")


def bucket(rate_bps: float, frame_bytes: int = 0) -> dict[str, int]:
    """tbf's settings for a link of that rate. frame_bytes: of the largest frame on a paced link, else 0."""
    burst = max(LEAST_BURST_BYTES, math.ceil(rate_bps / 8 * BURST_S))
    queue = max(LEAST_QUEUE_BYTES, math.ceil(rate_bps / 8 * QUEUE_S))
    paced = {"peak_bps": math.ceil(PEAK * rate_bps), "at_once_bytes": at_once_bytes(rate_bps, frame_bytes)}
    settings = {"rate_bps": round(rate_bps), "burst_bytes": burst, "limit_bytes": burst + queue}
    return settings | (paced if frame_bytes else {})


def at_once_bytes(rate_bps: float, frame_bytes: int) -> int:
    """The largest burst of a paced link of that rate."""
    wanted = frame_bytes + round(rate_bps / 8 * LATE_S)
    return wanted if wanted <= MOST_CUT_UP_BYTES else max(wanted, LEAST_BURST_BYTES)


def shape(namespaces: Mapping[str, int], links: Mapping[str, Link]) -> dict[str, Any]:
    """Shapes eth0 in each endpoint's network namespace (a descriptor, by name).

    Returns facts for the record: the filters' settings as the kernel has them, and the rules that drop packets. Raises
    TestbedError where the kernel refuses. Must not run in an event loop.
    """
    applied: dict[str, list] = {}
    for name, link in links.items():
        with inside(namespaces[name]):
            if link.rate_bps:
                _note(applied, "tbf", limit_rate(LINK, link.rate_bps, paced=link.paced))
            if link.loss:
                _note(applied, "iptables", lose(LINK, link.loss))
    return applied


def _note(applied: dict[str, list], kind: str, setting: Any) -> None:
    """Adds a setting; one that many links share is added once."""
    settings = applied.setdefault(kind, [])
    if setting not in settings:
        settings.append(setting)


def limit_rate(name: str, rate_bps: float, parent: int | None = None, *, paced: bool = False) -> dict[str, int]:
    """Puts a token bucket filter on that link of the present network namespace; returns its settings as read back.

    parent: the class of another queueing discipline that is to contain the filter. paced: flows on the link are timed.
    """
    from pyroute2 import IPRoute

    index = socket.if_nametoindex(name)
    with IPRoute() as ipr:
        frame_bytes = ETHERNET_BYTES + next(iter(ipr.get_links(index))).get_attr("IFLA_MTU") if paced else 0
        wanted = bucket(rate_bps, frame_bytes)
        options = {"rate": wanted["rate_bps"] // 8, "burst": wanted["burst_bytes"], "limit": wanted["limit_bytes"]}
        if paced:
            options |= {"peak": wanted["peak_bps"] // 8, "at_once": wanted["at_once_bytes"]}
        within = {} if parent is None else {"parent": parent, "handle": 0x100000}
        try:
            rtnetlink.ask(rtnetlink.token_bucket(index, **options, **within))
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise Unavailable(str(NO_FILTER)) from None
            raise TestbedError(f"link {name} could not be shaped to {rate_bps:g} bit/s: {error}") from error
        return next(_settings(each) for each in ipr.get_qdiscs(index) if each.get_attr("TCA_KIND") == "tbf")


def _settings(qdisc: Any) -> dict[str, int]:
    """tbf's settings in base units; its buffer is in ticks of 64 ns of the link's time."""
    parameters = qdisc.get_attr("TCA_OPTIONS").get_attr("TCA_TBF_PARMS")
    burst = parameters["buffer"] * 64e-9 * parameters["rate"]
    settings = {"rate_bps": parameters["rate"] * 8, "burst_bytes": round(burst), "limit_bytes": parameters["limit"]}
    if parameters["peak"]:
        at_once = parameters["mtu"] * 64e-9 * parameters["peak"]
        settings |= {"peak_bps": parameters["peak"] * 8, "at_once_bytes": round(at_once)}
    return settings


def lose(name: str, loss: float) -> str:
    """Drops that share of the packets that enter by that link of the present namespace; returns the rule."""
    rule = f"-A INPUT -i {name} -m statistic --mode random --probability {loss:.10f} -j DROP"
    # iptables' lock file is the host's, which only root may write; and no other process changes rules in the sandbox.
    run([IPTABLES.command, "-w", "10", *rule.split()], environment={"XTABLES_LOCKFILE": os.devnull})
    return rule


def missing(link: Link) -> list[MissingRequirement]:
    """The missing requirements of such a link: probed on the present namespace's loopback, which stays shaped."""
    requirements = []
    if link.rate_bps:
        try:
            limit_rate("lo", link.rate_bps)
        except Unavailable:
            requirements.append(NO_FILTER)
    if link.loss:
        requirements += _missing_for_loss(link.loss)
    return requirements


def _missing_for_loss(loss: float) -> list[MissingRequirement]:
    if missing := IPTABLES.missing():
        return [missing]
    try:
        lose("lo", loss)
    except TestbedError as error:
        modules = "xt_statistic nft_compat ip_tables iptable_filter"
        remedy = f"sudo modprobe -a {modules} (those your kernel has), or leave out link_loss"
        return lacking(f"packets cannot be dropped at random here ({error})", remedy)
    return []
