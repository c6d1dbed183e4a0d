"""The schema of what a run records beside its spec, and where each fact is: run.json may have come from anywhere.

What is named in the classes is computed with, and so validated; what is not is kept as it is, and only shown.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

#: A run that is dated later than so long from now was measured by a clock that was wrong.
_AHEAD = timedelta(days=1)
#: Before any run.
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
#: Beyond, arithmetic with it overflows; a count of bytes of a year at a Tbit/s is less.
_MOST = 1e30
Number = Annotated[float, Field(ge=-_MOST, le=_MOST, allow_inf_nan=False, strict=True)]
Positive = Annotated[Number, Field(gt=0)]
Text = Annotated[str, Field(strict=True)]
#: Outside of these years, times cannot be brought to another zone.
_FIRST, _LAST = datetime.fromisoformat("1970-01-01T00:00:00+00:00"), datetime.fromisoformat("9000-01-01T00:00:00+00:00")
Moment = Annotated[AwareDatetime, Field(ge=_FIRST, le=_LAST)]


#: By the names of facts that runs are compared by, or that are printed: the part of Run.facts that has each; empty: it
#: is a part itself.
FACTS: Mapping[str, str] = {
    **dict.fromkeys(
        ("kernel", "cpu_model", "cpus", "memory_bytes", "virtualization", "distribution", "cgroup"), "host"
    ),
    **dict.fromkeys(("cpu_governor", "cpuidle_driver", "default_qdisc", "rmem_max", "wmem_max", "cpu_weights"), "host"),
    **dict.fromkeys(("datapath", "docker", "tcp_congestion_control", "tcp_rmem", "tcp_wmem"), "network"),
    **dict.fromkeys(("tcp_ecn", "tcp_sack", "tcp_timestamps", "mtu_bytes", "qdiscs"), "network"),
    **dict.fromkeys(("tso", "gso", "gro", "rx_checksum", "tx_checksum", "scatter_gather"), "network"),
    "in_force": "congestion_control",
    "pairlab": "versions",
    "harness_cpus": "pinning",
    **dict.fromkeys(("held", "urgency"), ""),
}


def fact(facts: Mapping[str, Any], name: str) -> Any:
    return ((facts.get(FACTS[name]) or {}) if FACTS[name] else facts).get(name)


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow")


class Host(_Part):
    cpu_model: Text = ""
    kernel: Text = ""
    cpus: Positive | None = None
    machine: Text | None = None
    fingerprint: Text = ""
    virtualization: Text | None = None
    cpus_allowed: Positive | None = None
    cpu_quota: Number | None = None


class OneOfHosts(_Part):
    name: Text
    kind: Text


class Link(_Part):
    name: Text
    kind: Text = ""
    master: Text = ""
    addresses: list[Text] = []


class Endpoint(_Part):
    name: Text
    links: list[Link] = []
    routes: list[Text] = []


class NetworkOfHost(_Part):
    name: Text
    links: list[Link] = []
    endpoints: list[Endpoint] = []
    routes: list[Text] = []


class Network(_Part):
    hosts: list[NetworkOfHost] = []
    datapath: Text = ""
    docker: Text = ""
    ovs: Text = ""


class InForce(_Part):
    in_force: Text = ""
    by: Text = ""


class Attempt(_Part):
    measured_at: Text
    reasons: list[Text]


class Pinning(_Part):
    cpus: dict[Text, Number] = {}


class Captured(_Part):
    packets: Number | None = None
    missed: Number | None = None


class Facts(_Part):
    host: Host | None = None
    hosts: list[OneOfHosts] | None = None
    network: Network | None = None
    congestion_control: InForce | None = None
    pinning: Pinning | None = None
    attempts: list[Attempt] = []
    versions: dict[Text, Text | None] | None = None
    counters: dict[Text, Number | list[Text]] = {}
    links: dict[Text, list[Text]] = {}
    capture: dict[Text, Captured] = {}
    waits_s: Number = 0.0
    left_behind: Text = ""
    conditions: Text = ""
    conditions_changed: dict[Text, list[Text]] = {}
    block: Text = ""


class _Head(BaseModel):
    """All but schema, key, spec and status, which are looked at one by one."""

    reasons: list[Text]
    measured_at: Moment | None
    skew_s: Number | None
    harness_cpu_s: Number | None
    times_s: dict[Text, Number]
    checks: dict[Text, Number | bool | None]
    facts: Facts
    rows: dict[Text, Annotated[int, Field(ge=0, strict=True)]]


def require(head: Mapping[str, Any]) -> None:
    """Raises ValueError, with the place and what is wrong there, for what no run has recorded."""
    try:
        _Head.model_validate({name: head[name] for name in _Head.model_fields})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(each) for each in first["loc"])
        raise ValueError(f"{place} is not what a run records there: {first['msg']}") from None
    except RecursionError:
        raise ValueError("its facts are too deep") from None


def age_key(measured_at: datetime | None) -> datetime:
    """By which runs are sorted by age: one of which it is not known when it was measured is older than all others."""
    return _LONG_AGO if measured_at is None or measured_at > datetime.now(UTC) + _AHEAD else measured_at
