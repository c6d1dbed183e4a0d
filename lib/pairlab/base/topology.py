"""The picture of a testbed: its hosts, their networks and the first endpoints on each, drawn from a run's facts."""

from collections.abc import Mapping
from html import escape
from typing import Any

from pairlab.base import entry_points
from pairlab.base.charts import INK, PALE, text

#: Sizes in px: a host's box, an endpoint's, a line of text; the room between and around them.
HOST_WIDTH, END_WIDTH, END_HEIGHT, LINE, GAP = 290, 104, 44, 16, 16
_RULE, _FILL = "var(--jp-border-color1, #999)", "var(--jp-layout-color2, #f4f4f4)"

#: Links of hosts that are no part of a driver's network, by the beginning of their names.
_OF_HOST = ("lo", "uplink", "wire", "host-")


def picture(network: Mapping[str, Any]) -> str:
    """The SVG of a run's facts["network"]; empty where the run is older than what it is drawn from."""
    hosts = network.get("hosts")
    if not hosts:
        return ""
    several = len(hosts) > 1
    drawn = hosts if len(hosts) <= 4 else [*hosts[:3], hosts[-1]]
    parts, height = [], 0.0
    for number, host in enumerate(drawn):
        box, bottom = _host(GAP + number * (HOST_WIDTH + GAP), GAP, host, network, several)
        parts.append(box)
        height = max(height, bottom)
    width = GAP + len(drawn) * (HOST_WIDTH + GAP)
    if several:
        parts.append(_wire(len(drawn), height, network, len(hosts)))
        height += 3 * LINE
    height += GAP
    return (
        f"<svg role='img' aria-label='{escape(describe(network))}' viewBox='0 0 {width:g} {height:g}' width='100%'"
        f" style='max-width:{width:g}px;display:block;font:12px var(--jp-ui-font-family, sans-serif)'>"
        f"{''.join(parts)}</svg>"
    )


def drawer(network: Mapping[str, Any]) -> str:
    """The picture as HTML, shown when a reader opens it; empty where there is none."""
    drawn = picture(network)
    return f"<details><summary>how the testbed was built</summary>{drawn}</details>" if drawn else ""


def describe(network: Mapping[str, Any]) -> str:
    sentences = []
    for host in network.get("hosts") or ():
        ends = ", ".join(each["name"] for each in host["endpoints"])
        more = host["endpoint_count"] - len(host["endpoints"])
        beside = f" and {more} more" if more > 0 else ""
        sentences.append(f"{host['name']}: {ends}{beside} on {'; '.join(_network(host, network)) or 'its own stack'}")
    return ". ".join(sentences)


def _network(host: Mapping[str, Any], network: Mapping[str, Any]) -> list[str]:
    """What the driver built on the host, a line for each part."""
    ends = {each["name"] for each in host["endpoints"]}
    links = [each for each in host.get("links", ()) if each["name"] not in ends]
    shown = [each for each in links if not each["name"].startswith(_OF_HOST) and each["kind"] != "other"]
    shown = [each for each in shown if not (each["kind"] == "veth" and each.get("master"))]  # as Docker names ports
    lines = [_of_link(each) for each in shown if each["name"] not in ("parent1", "ovs-netdev")]
    about = {**network, **host.get("driver", {})}
    if "datapath" in about:
        where = "in the kernel" if about["datapath"] == "system" else "in user space"
        lines = ["Open vSwitch, forwards " + where, *(line for line in lines if "vxlan" in line)]
    lines += ["nftables: published ports, masquerade"] if "nft" in about else []
    lines += ["iptables: published ports, masquerade"] if "iptables" in about else []
    lines += ["docker-proxy: a process per port"] if about.get("userland_proxy") else []
    lines += ["Docker's daemon, and no container"] if about.get("containers") == 0 else []
    lines += ["BIRD: routes by BGP"] if about.get("routes") else []
    for point in entry_points.added("pictures").values():
        lines += entry_points.load(point)(about)
    lines += [f"network {about['planned']}"] if "planned" in about else []
    return lines


def _of_link(link: Mapping[str, Any]) -> str:
    address = f" {link['addresses'][0]}" if link.get("addresses") else ""
    identifier = link.get("settings", {}).get("id")
    tunnel = f", id {identifier}" if identifier else ""
    return f"{link['kind']} {link['name']}{address}{tunnel}"


def _host(left: float, top: float, host: Mapping[str, Any], network: Mapping[str, Any], several: bool):
    """The box of a host, and its lower edge."""
    lines = _network(host, network)
    ends = host["endpoints"]
    parts, below = [], top + 1.6 * LINE
    linked = bool(lines) and any("links" in each for each in ends)
    for number, each in enumerate(ends):
        x = left + GAP + number * (END_WIDTH + GAP)
        parts.append(_end(x, below, each))
        if linked:
            middle = x + END_WIDTH / 2
            parts.append(_line(middle, below + END_HEIGHT, middle, below + END_HEIGHT + 1.5 * LINE))
            parts.append(text(middle + 5, below + END_HEIGHT + LINE, _kind(each), "start", PALE))
    if not lines and len(ends) == 2 and _kind(ends[0]) == "veth":  # a cable from the one to the other
        y = below + END_HEIGHT / 2
        parts.append(_line(left + GAP + END_WIDTH, y, left + 2 * GAP + END_WIDTH, y))
    if more := host["endpoint_count"] - len(ends):
        x = left + HOST_WIDTH - GAP
        parts.append(text(x, below + END_HEIGHT / 2 + 4, f"+ {more:,}", "end", PALE))
    below += END_HEIGHT + (1.5 * LINE if linked else 0.5 * LINE)
    if lines:
        height = LINE * len(lines) + 10
        parts.append(_box(left + GAP, below, HOST_WIDTH - 2 * GAP, height))
        parts += [text(left + GAP + 8, below + LINE * (n + 1), line) for n, line in enumerate(lines)]
        below += height
    below += 0.8 * LINE
    uplink: Mapping[str, Any] = next((each for each in host.get("links", ()) if each["name"].startswith("uplink")), {})
    about = f"{host['name']}  {_address(uplink)}".rstrip() if several else "this host"
    frame = _box(left, top, HOST_WIDTH, below - top, "none")
    parts.append(text(left + 8, top + LINE, about, "start", INK, " font-weight='600'"))
    return frame + "".join(parts), below


def _end(x: float, y: float, end: Mapping[str, Any]) -> str:
    address = _address(_eth0(end)) or ("loopback" if "links" in end else "process")
    named = text(x + END_WIDTH / 2, y + 18, end["name"], "middle")
    return _box(x, y, END_WIDTH, END_HEIGHT) + named + text(x + END_WIDTH / 2, y + 34, address, "middle", PALE)


def _address(link: Mapping[str, Any]) -> str:
    """Its first address, without the prefix; empty where it has none."""
    return str(next(iter(link.get("addresses", ())), "")).split("/")[0]


def _kind(end: Mapping[str, Any]) -> str:
    return _eth0(end).get("kind", "")


def _eth0(end: Mapping[str, Any]) -> Mapping[str, Any]:
    """The facts of its first link; none of an endpoint without links."""
    return next((each for each in end.get("links", ()) if each["name"] == "eth0"), {})


def _wire(hosts: int, y: float, network: Mapping[str, Any], all_hosts: int) -> str:
    middles = [GAP + number * (HOST_WIDTH + GAP) + HOST_WIDTH / 2 for number in range(hosts)]
    wire = y + 1.5 * LINE
    parts = [_line(middle, y, middle, wire) for middle in middles]
    parts.append(_line(middles[0], wire, middles[-1], wire))
    underlay = network.get("underlay", {})
    whose = f"at {' and '.join(underlay['limited_hosts'])}" if "limited_hosts" in underlay else "each"
    rate = f", {underlay['tbf']['rate_bps'] / 1e9:g} Gbit/s {whose}" if "tbf" in underlay else ""
    netem = underlay.get("netem", {})
    rate += f", delayed by {netem['delay_s'] * 1e3:g} ms" if netem.get("delay_s") else ""
    rate += f", losing {netem['loss']:.3g}" if netem.get("loss") else ""
    hidden = f"; {all_hosts - hosts} hosts are not drawn" if all_hosts > hosts else ""
    uplinks = f"uplinks of MTU {underlay.get('mtu', 0):,} B{rate}, one kernel{hidden}"
    parts.append(text((middles[0] + middles[-1]) / 2, wire + LINE, uplinks, "middle", PALE))
    return "".join(parts)


def _box(x: float, y: float, width: float, height: float, fill: str = _FILL) -> str:
    size = f"width='{width:.1f}' height='{height:.1f}'"
    return f"<rect x='{x:.1f}' y='{y:.1f}' {size} rx='4' fill='{fill}' stroke='{_RULE}'/>"


def _line(x: float, y: float, to_x: float, to_y: float) -> str:
    return f"<path d='M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}' stroke='{_RULE}' stroke-width='2' fill='none'/>"
