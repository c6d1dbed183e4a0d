"""The client configuration of Empirical Traffic Generator, read as it is (github.com/datacenter/empirical-traffic-gen).

A key and its values on each line: server HOST PORT; req_size_dist FILE; fanout SERVERS WEIGHT; load N or NMbps, where 0
is a closed loop; num_reqs N. Also that of HKUST's TrafficGenerator (github.com/HKUST-SING/TrafficGenerator), where the
command line gives load and requests, a server may have the number of its rack, and fanout may be missing. Its dscp and
rate are read only where they change nothing.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pairlab.errors import BadInput

#: By key: what follows it, in words, and whether it may be given once only.
_KEYS = {
    "server": ("an address and a port, as in: server 10.0.0.1 5000", False),
    "req_size_dist": ("the file of a CDF, as in: req_size_dist DCTCP_CDF", True),
    "fanout": ("a number of servers and a weight, as in: fanout 4 20", False),
    "load": ("a load in Mbit/s, as in: load 1000Mbps, or load 0 for a closed loop", True),
    "num_reqs": ("a number of requests, as in: num_reqs 1500", True),
    "dscp": ("a DSCP and a weight, as in: dscp 0 25", False),
    "rate": ("a sending rate in Mbit/s and a weight, as in: rate 0Mbps 10", False),
}
#: Of the number before a weight.
_RANGES = {"fanout": (1, 10**12), "dscp": (0, 63), "rate": (0, 10**12)}
#: What pairlab's clients do not do, by the key that asks for it.
_NOT_DONE = {"dscp": "marks packets with a DSCP", "rate": "limits the rate of flows"}
#: On the command line of HKUST's TrafficGenerator.
_OPTIONS = ("load", "num_reqs")
_LOAD = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(?:Mbps)?")


@dataclass(frozen=True)
class EtgConfig:
    """What such a client is to send.

    servers: (host, port). size_cdf: the file of request sizes; the flows of a request share its size. fan_outs:
    (servers that a request asks at once, weight). load_bps: payload that the client receives on average; 0: a closed
    loop, where a request follows the one before. requests: how many. Both are None where the file leaves them to the
    command line.
    """

    servers: tuple[tuple[str, int], ...]
    size_cdf: Path
    fan_outs: tuple[tuple[int, int], ...]
    load_bps: float | None
    requests: int | None

    @property
    def parameters(self) -> dict[str, Any]:
        """The same as parameters of a Spec, which measures it in a testbed, with as many servers.

        Its duration_s has to be given besides, and flows_per_pair: that client has one connection to each server.
        """
        given = {
            "workload": "traffic",
            "flow_sizes": str(self.size_cdf),
            "offered_load_bps": self.load_bps,
            "requests": self.requests,
            "fan_out": " ".join(f"{servers}={weight}" for servers, weight in self.fan_outs),
            "pairs": len(self.servers),
        }
        return {name: value for name, value in given.items() if value is not None}


def is_one(path: Path) -> bool:
    """Whether this file is such a configuration, rather than a CDF: a line of it begins with one of the keys."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        return False
    return any(words[0] in _KEYS for line in lines if (words := line.split()))


def read(path: Path) -> EtgConfig:
    """Reads such a file. A relative size_cdf counts from its folder, else the one above, else from the current one.

    Raises BadInput with the file, the line and what to do.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise BadInput(f"cannot read the configuration {path}: {why}; give a text file") from None
    entries: dict[str, list] = {key: [] for key in _KEYS}
    for number, line in enumerate(lines, 1):
        key, *values = line.partition("#")[0].split() or [""]
        if not key:
            continue
        where = f"{path}, line {number}"
        if key not in _KEYS:
            raise BadInput(f"{where}: no key {key!r}; there are: {', '.join(_KEYS)}")
        words, once = _KEYS[key]
        if once and entries[key]:
            raise BadInput(f"{where}: {key} is given twice: leave one out")
        try:
            entries[key].append(_value(key, values))
        except ValueError:
            raise BadInput(f"{where}: {line.strip()[:80]!r} does not give {words}") from None
        if key in _NOT_DONE and all(entries[key][-1]):
            raise BadInput(
                f"{where}: {line.strip()[:80]!r} {_NOT_DONE[key]}, which pairlab does not: leave out the lines of"
                f" {key}, and it measures without"
            )
    for key in ("server", "req_size_dist", *(_OPTIONS if any(entries[key] for key in _OPTIONS) else ())):
        if not entries[key]:
            raise BadInput(f"{path} has no {key}: add {_KEYS[key][0]}")
    return _checked(entries, path)


def _checked(entries: dict[str, list], path: Path) -> EtgConfig:
    servers, fan_outs = tuple(entries["server"]), tuple(entries["fanout"]) or ((1, 1),)
    most = max(fan_out for fan_out, _ in fan_outs)
    if most > len(servers):
        raise BadInput(
            f"{path}: fanout {most} needs {most} servers, and there are {len(servers)}: add servers, or lower it"
        )
    if not sum(weight for _, weight in fan_outs):
        raise BadInput(f"{path}: all weights of fanout are 0: give one of them a weight above 0")
    (named,) = entries["req_size_dist"]
    load_bps, requests = (next(iter(entries[key]), None) for key in _OPTIONS)
    places = [place / named for place in (path.parent, path.absolute().parent.parent)]
    size_cdf = next((place for place in places if place.is_file()), Path(named))
    return EtgConfig(servers, size_cdf, fan_outs, load_bps, requests)


def _value(key: str, values: list[str]):
    """What follows a key; raises ValueError where it is something else."""
    if key == "server":
        host, port, rack = values if len(values) == 3 else [*values, "0"]
        _whole(rack, 0)
        return host, _whole(port, 1, 65535)
    if key in ("fanout", "dscp", "rate"):
        number, weight = values
        least, most = _RANGES[key]
        return _whole(number.removesuffix("Mbps" * (key == "rate")), least, most), _whole(weight, 0)
    (value,) = values
    if key == "req_size_dist":
        return value
    if key == "num_reqs":
        return _whole(value, 1)
    load = _LOAD.fullmatch(value)
    if not load:
        raise ValueError(value)
    return float(load[1]) * 1e6


def _whole(text: str, least: int, most: int = 10**12) -> int:
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise ValueError(text)
    return int(text)
