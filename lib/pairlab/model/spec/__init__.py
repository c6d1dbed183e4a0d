"""Spec: everything that one measurement depends on; frozen, validated, hashed to a key."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from pairlab.errors import BadSpec, hint, unknown_name
from pairlab.model import traffic_parameters
from pairlab.model.spec import consistency, describe, fields
from pairlab.model.spec.fields import Mark, TakesNumbers, about, shows_its_fields
from pairlab.model.spec.namespace import parameters_in

PAPERS, REPLICATE, BOUND, PLUGIN, TRAFFIC, OTHERS, LAUNCHES, LASTS = Mark
#: The largest integer that a table's int64 column holds.
LARGEST = 2**63 - 1

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,39}$")]

#: Sentences about names in a spec that no plugin has. The testbed's registry, which knows the plugins, sets it.
unknown_names: Callable[["Spec"], list[str]] = lambda spec: []  # noqa: E731
#: The name of the driver that is meant by a name: the same, unless that is another name of it. The registry sets it.
driver_meant: Callable[[str], str] = lambda name: name  # noqa: E731
_names_checked = ContextVar("names_checked", default=True)


@contextmanager
def stored_names() -> Iterator[None]:
    """Specs made in this block may have names of plugins that are not installed here, as those of stored runs may."""
    token = _names_checked.set(False)
    try:
        yield
    finally:
        _names_checked.reset(token)


DriverName = Annotated[Name, AfterValidator(lambda name: driver_meant(name))]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Amount = Annotated[int, Field(ge=0, le=LARGEST)]
FlowSizes = Annotated[
    str, AfterValidator(lambda given: traffic_parameters.flow_sizes(given, may_be_file=_names_checked.get()))
]


@shows_its_fields("replace")
class Spec(TakesNumbers):
    """What one measurement depends on, in base units.

    Equal specs have equal keys, on every machine. A default is part of the schema: it never changes, so that adding a
    field later does not change the keys of older runs. Raises BadSpec on a wrong parameter, type or value, and on the
    name of a backend, driver, workload or pinning that does not exist.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    experiment: Annotated[Name, PAPERS, LAUNCHES] = about(
        "throughput", "the notebook that measures it, and the folder of the run"
    )
    backend: Annotated[Name, PAPERS, LAUNCHES, PLUGIN] = about(
        "netns",
        "how containers are made: netns (namespaces), docker; on hosts with kernels of their own: uml, ssh (machines)",
    )
    driver: Annotated[DriverName, PAPERS, LAUNCHES, PLUGIN] = about("bridge", "the network between them")
    pairs: Annotated[int, PAPERS, LAUNCHES] = about(1, "client/server pairs, all active at once", ge=1, le=5000)
    workload: Annotated[Name, PAPERS, LAUNCHES, PLUGIN, LASTS] = about(
        "auto", "traffic tool; auto: iperf where installed, else flowgen"
    )
    duration_s: Annotated[Finite, PAPERS, LAUNCHES] = about(
        10.0, "measuring window; for flows of a fixed size, the time limit", gt=0, le=86400
    )
    warmup_s: Annotated[Finite, PAPERS, OTHERS] = about(0.0, "traffic before the window, not measured", ge=0, le=3600)
    interval_s: Annotated[Finite, PAPERS] = about(0.5, "length of one row of intervals and cpu", ge=0.1, le=3600)
    repetition: Annotated[Amount, PAPERS, LAUNCHES, REPLICATE] = about(0, "number of this repetition of the same cell")
    seed: Annotated[Amount, PAPERS, LAUNCHES, REPLICATE] = about(0, "seed of all random choices in the run")
    twin: Annotated[bool, LAUNCHES] = about(
        False, "a second measurement of the same cell in its block, to show how far equals differ"
    )
    start_spacing_s: Annotated[Finite, OTHERS, LASTS] = about(
        0.0, "each client is released so much later than the one before; 0: all together", ge=0, le=3600
    )
    max_skew_s: Annotated[Finite, PAPERS, BOUND] = about(
        0.1, "a larger spread of client start times, less when each was due, makes the run invalid", gt=0
    )
    max_foreign_cpu: Annotated[Share, PAPERS, BOUND] = about(
        0.1, "share of all CPU time that other processes may use; more makes the run invalid"
    )
    cpus_awake: Annotated[bool, LAUNCHES] = about(
        False,
        "keep idle CPUs from sleeping: where they sleep, each wake-up takes some µs, in a virtual machine"
        " tens, which are part of each latency; needs root",
    )
    telemetry: Annotated[bool, PAPERS] = about(
        True, "sample CPU use, foreign load and counters; off: to measure what sampling costs"
    )
    profile: bool = about(
        False, "sample which kernel functions run during the traffic; it costs throughput, and needs root"
    )
    capture: Annotated[str, AfterValidator(lambda given: ",".join(sorted({*given.split(",")})))] = about(
        "",
        "endpoints whose packets are captured (the first 96 B of each, of 500,000 at most): client-0,server-0; empty:"
        " none. It costs throughput, and needs root and tcpdump",
        pattern=r"^((client|server)-(0|[1-9][0-9]{0,3})(,(client|server)-(0|[1-9][0-9]{0,3}))*)?$",
    )
    flow_bytes: Annotated[Amount, PAPERS, OTHERS, LASTS] = about(0, "payload of each flow; 0: flows end by time only")
    elephant_share: Annotated[Share, PAPERS, OTHERS, LASTS] = about(
        0.0, "share of the clients that send elephants, drawn by the seed"
    )
    elephant_bytes: Annotated[Amount, PAPERS, LASTS] = about(0, "payload of an elephant's flow")
    flows_per_pair: int = about(1, "parallel flows of each client", ge=1, le=1000)
    direction: Literal["up", "down", "both"] = about(
        "up",
        "who sends. up: the clients; down: their servers, when asked to; both: at once, each on flows_per_pair flows",
    )
    message_bytes: Annotated[int, OTHERS] = about(0, "bytes per send call; 0: the tool's default", ge=0, le=1 << 26)
    request_bytes: Annotated[int, OTHERS] = about(
        0, "payload of each request (rr); 0: the least, 1 by TCP and 32 by UDP", ge=0, le=1 << 22
    )
    response_bytes: Annotated[int, OTHERS] = about(
        0, "payload of each response (rr); 0: the least, 1 by TCP and 16 by UDP", ge=0, le=1 << 22
    )
    requests_per_s: Annotated[Finite, OTHERS] = about(
        0.0,
        "requests of each client, all its connections (flows_per_pair) together; latency counts from when"
        " each was due; 0: each is sent when the response to the one before has come",
        ge=0,
        le=1e9,
    )
    connect_per_request: Annotated[bool, OTHERS] = about(False, "a connection of its own for each request")
    flow_sizes: Annotated[FlowSizes, LASTS] = about(
        "",
        "distribution of the sizes of flows (traffic): a shipped one's name, or a file, whose points then"
        " take its place; empty: none",
        pattern=r"^[^\x00-\x1f]*$",
    )
    offered_load_bps: Annotated[Finite, TRAFFIC, LASTS] = about(
        0.0,
        "payload that the flows of flow_sizes offer; 0: a closed loop, in which flows_per_pair requests are"
        " under way, and one follows when another has ended",
        ge=0,
        le=1e13,
    )
    requests: Annotated[int, TRAFFIC, LASTS] = about(
        0,
        "requests for flows of flow_sizes, which have duration_s; 0: as many as are due in duration_s",
        ge=0,
        le=10_000_000,
    )
    fan_out: Annotated[str, TRAFFIC] = about(
        "1",
        "servers that each request asks at once for equal parts: 4; or some with weights (docs/reference/traffic.md)",
        pattern=traffic_parameters.FAN_OUT,
    )
    arrivals: Annotated[Literal["poisson", "fixed"], TRAFFIC] = about(
        "poisson", "when requests are due at an offered load: as a Poisson process, or at fixed gaps"
    )
    may_fall_behind: Annotated[bool, TRAFFIC] = about(
        False,
        "requests may fall behind offered_load_bps, as with the generator of Mentz et al. (2020): all of them are made,"
        " however long after they were due, and the load that was carried is reported and not judged; duration_s is"
        " the limit",
    )
    ranks: int = about(
        0,
        "containers that take part where all exchange messages with all (all-to-all), the first ones: all,"
        " or all but the last; 0: all",
        ge=0,
        le=256,
    )
    udp_share: Annotated[Share, OTHERS] = about(0.0, "share of the clients that send UDP, drawn by the seed")
    udp_rate_bps: Finite = about(0.0, "sending rate of each UDP flow; 0: as fast as possible", ge=0)
    ip_version: Literal[4, 6] = about(4, "version of the Internet Protocol by which clients and servers talk")
    congestion_control: str = about(
        "", "TCP congestion control; empty: the kernel's default", pattern=r"^[a-z0-9_]{0,15}$"
    )
    cores: Annotated[int, LASTS] = about(0, "cores that all containers together may use; 0: all", ge=0, le=4096)
    pinning: Annotated[Name, PLUGIN] = about("none", "policy that binds each container to a core")
    cpu_quota: Finite = about(0.0, "CPUs that each container may use at most; 0: no limit", ge=0, le=4096)
    cpu_quota_of_fair_share: Finite = about(
        0.0, "the same as a share of each container's fair part: the cores divided by the containers", ge=0, le=100
    )
    cpu_shares: int = about(0, "CPU weight of each container; 0: the default", ge=0, le=262144)
    priority_share: Share = about(0.0, "share of the pairs whose containers have CPU priority, drawn by the seed")
    priority_cpu_shares: int = about(0, "CPU weight of each container with priority", ge=0, le=262144)
    mtu_bytes: Annotated[int, LAUNCHES] = about(
        0, "MTU of the containers' links; 0: the driver's default", ge=0, le=65535
    )
    link_rate_bps: Annotated[Finite, LASTS] = about(
        0.0, "rate of each client's link, link-layer headers included; 0: no limit", ge=0
    )
    link_loss: Finite = about(0.0, "share of the packets that are dropped as they arrive at each server", ge=0, lt=1)
    hosts: Annotated[int, LAUNCHES] = about(1, "hosts that the containers are on", ge=1, le=64)
    placement: Annotated[
        Literal["same-host", "across", "one-to-many", "one-to-all", "spread", "packed-but-one"], LAUNCHES
    ] = about(
        "same-host",
        "host of each container. same-host: both of a pair on one, pairs in turn; across: clients"
        " on the first half of the hosts, servers on the others; one-to-many: all clients on the first, servers on the"
        " others in turn; one-to-all: all clients on the first, servers on all in turn; spread: all containers in turn;"
        " packed-but-one: the first client on one, all others on the other",
    )
    host_kind: Literal["", "physical", "virtual"] = about(
        "",
        "what the hosts of older runs were called. Nothing is measured with it: hosts share the kernel of their"
        " machine, and facts.host.virtualization has what that is",
    )
    uplink_rate_bps: Annotated[Finite, LAUNCHES] = about(
        0.0, "rate of each host's uplink in each direction, link-layer headers included; 0: no limit", ge=0
    )
    uplink_delay_s: Annotated[Finite, LAUNCHES] = about(
        0.0, "by how much each host's uplink delays what it sends", ge=0, le=10
    )
    uplink_jitter_s: Annotated[Finite, LAUNCHES] = about(
        0.0, "by how much that delay varies, either way; packets may overtake each other", ge=0, le=10
    )
    uplink_loss: Annotated[Finite, LAUNCHES] = about(
        0.0, "share of the packets that each host's uplink loses of what it sends, at random", ge=0, lt=1
    )
    uplink_mtu_bytes: Annotated[int, LAUNCHES] = about(0, "MTU of the hosts' uplinks; 0: 1500", ge=0, le=65535)
    limited_uplinks: Annotated[int, LAUNCHES] = about(
        0, "hosts, the last ones, whose uplinks have that rate, delay and loss; 0: all", ge=0, le=64
    )
    background_pairs: int = about(
        0,
        "further pairs, that send TCP at full rate from before the others start until these have ended, and"
        " that no result counts; each is on the hosts of the pair of its number",
        ge=0,
        le=1000,
    )
    background_workload: Annotated[Name, PLUGIN] = about("flowgen", "traffic tool of the background pairs")
    background_driver: Literal["", "host"] = about(
        "",
        "network of the background pairs. host: their hosts' own, so that they share the uplinks with the"
        " others; empty: that of the others",
    )
    interference_workers: int = about(
        0, "processes that use CPU time beside the pairs, on each host of interference_where", ge=0, le=1000
    )
    interference_tool: Literal["flowgen", "stress-ng"] = about(
        "flowgen",
        "what they run. flowgen: a loop that touches no memory; stress-ng: its CPU stressor, all of whose"
        " methods take turns",
    )
    interference_load: Finite = about(
        1.0, "CPUs that each of them uses; 1: it never rests; below: that share of each 0.1 s", ge=0.001, le=1
    )
    launches: Annotated[int, LAUNCHES] = about(
        0,
        "launches, one after the other, of the server of each pair, all pairs at once: no traffic is sent,"
        " but the time is measured until each runs and answers its client's ping; 0: none",
        ge=0,
        le=1000,
    )
    idle_pairs: Annotated[int, LAUNCHES] = about(
        0, "further pairs that run, and send nothing, while others are launched", ge=0, le=2000
    )
    interference_where: Literal["client", "server", "both"] = about(
        "client", "the hosts that they are on: those of the clients, of the servers, or both"
    )

    def __init__(self, /, **values: Any):
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise BadSpec(_explain(error, type(self))) from None
        if _names_checked.get() and (unknown := unknown_names(self)):
            raise BadSpec("; ".join(unknown))

    @model_validator(mode="after")
    def _values_fit_together(self):
        consistency.require(self)
        return self

    def replace(self, /, **changes: Any) -> "Spec":
        """The same spec with some values changed, validated again. changes: by the names of Spec's parameters."""
        values = {**self.model_dump(), **changes}
        checked = changes.keys() & {*fields.defaults(type(self), PLUGIN), "flow_sizes"}
        return type(self)(**values) if checked else self.stored(values)

    @classmethod
    def stored(cls, values: Mapping[str, Any]) -> "Spec":
        """The spec of a stored run, which may name plugins that are not installed here. Raises BadSpec."""
        with stored_names():
            return cls(**values)

    @property
    def key(self) -> str:
        """16 hex digits that name this spec: SHA-256 over the values that differ from the defaults."""
        text = json.dumps(self.model_dump(exclude_defaults=True), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def flows_end(self) -> bool:
        """Whether flows end by themselves, when they have carried their bytes, and so have completion times."""
        return bool(self.flow_bytes or self.flow_sizes)

    @property
    def total_s(self) -> float:
        """Sending time of each client: warm-up and window."""
        return self.warmup_s + self.duration_s

    @property
    def directions(self) -> tuple[str, ...]:
        """In which directions each pair has flows_per_pair flows: up, down, or both."""
        return ("up", "down") if self.direction == "both" else (self.direction,)

    def due_s(self, pair: int) -> float:
        """When the client of that pair is to start, from the release."""
        return pair * self.start_spacing_s

    @property
    def last_due_s(self) -> float:
        """When the last client is to start, from the release."""
        return self.due_s(self.pairs - 1)

    @property
    def traffic_s(self) -> float:
        """From the release until the last client has sent for its time."""
        return self.last_due_s + self.total_s

    @property
    def particulars(self) -> list[str]:
        """What this measurement has beyond one TCP flow per pair, in words, one phrase for each."""
        return describe.particulars(self)

    def __repr_args__(self) -> list[tuple[str, Any]]:
        """The values that differ from the defaults: enough to make the spec again."""
        return list(self.model_dump(exclude_defaults=True).items())

    def _repr_html_(self) -> str:
        return describe.card(self)

    def __str__(self) -> str:
        return describe.line(self)


def value_of(name: str, given: Any) -> Any:
    """What is given for a parameter of Spec, as a Spec has it, unchecked; of another name, as it is.

    Raises BadSpec where it is no number as people write them.
    """
    if name not in Spec.model_fields:
        return given
    try:
        return Spec.as_field(name, given)
    except ValueError as error:
        raise BadSpec(f"{name}: {error}") from None


def marked(mark: Mark) -> tuple[str, ...]:
    """The names of Spec's parameters with that mark, in their order."""
    return tuple(fields.defaults(Spec, mark))


#: Parameters of experiment notebooks that say how to measure, not what.
NOT_IN_SPEC = ("fresh",)


def spec_from(namespace: Mapping[str, Any], *, experiment: str) -> Spec:
    """The Spec of a notebook's parameters; call it with globals() right after the cell that holds them.

    What is imported, and what IPython's configuration has set, are none. A literal whose name misses one of theirs is
    refused, with its cell (papermill would only warn). Raises BadSpec.
    """
    return Spec(experiment=experiment, **parameters_in(namespace, Spec.model_fields, NOT_IN_SPEC))


def require_spec(spec: Any, function: str) -> None:
    """Raises BadSpec, saying how to call that function, where it was not given a Spec."""
    if not isinstance(spec, Spec):
        values = "**values" if isinstance(spec, Mapping) else 'driver="bridge", pairs=5'
        kind = type(spec).__name__
        article = "an" if kind[:1].lower() in "aeiou" else "a"
        raise BadSpec(f"{function} needs a Spec, not {article} {kind}: {function}(Spec({values}))")


def _explain(error: ValidationError, model: type[BaseModel]) -> str:
    lines, unknown = [], []
    for detail in error.errors():
        name = ".".join(str(part) for part in detail["loc"])
        if detail["type"] == "extra_forbidden":
            unknown.append(name)
        elif detail["type"] == "value_error":
            lines.append(f"{name + ': ' if name else ''}{detail['ctx']['error']}")
        else:
            lines.append(f"{name}: {detail['msg'][0].lower()}{detail['msg'][1:]}, not {_shown(detail['input'])}")
    wrong = [f"no parameter {name!r}{hint(name, model.model_fields)}" for name in unknown[:-1]]
    wrong += [unknown_name("parameter", name, model.model_fields) for name in unknown[-1:]]
    return "; ".join([*wrong, *lines])


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # an integer of thousands of digits, or somebody's own class
        return f"a value that cannot be shown ({type(value).__name__})"
    return text if len(text) <= 80 else f"{text[:77]}..."
