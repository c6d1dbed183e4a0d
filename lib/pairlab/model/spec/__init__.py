"""Spec: everything that one measurement depends on; frozen, validated, hashed to a key."""

import difflib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from pairlab.base import units
from pairlab.errors import BadSpec
from pairlab.model.spec import consistency, words
from pairlab.model.spec.docs import shows_its_fields
from pairlab.model.traffic import asked

#: The largest integer that a table's int64 column holds.
LARGEST = 2**63 - 1

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,39}$")]


#: Sentences about names in a spec that no plugin has. The testbed's registry, which knows the plugins, sets it.
unknown_names: Callable[["Spec"], list[str]] = lambda spec: []  # noqa: E731
#: The name of the driver that is meant by a name: the same, unless that is another name of it. The registry sets it.
driver_meant: Callable[[str], str] = lambda name: name  # noqa: E731
#: The fields that hold plugins' names.
PLUGINS = ("backend", "driver", "workload", "background_workload", "pinning")
_names_checked = ContextVar("names_checked", default=True)


@contextmanager
def stored_names() -> Iterator[None]:
    """Specs made in this block may have names of plugins that are not installed here, as those of stored runs may."""
    token = _names_checked.set(False)
    try:
        yield
    finally:
        _names_checked.reset(token)


def _finite(value: float) -> float:
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError("must be a finite number")
    return value


DriverName = Annotated[Name, AfterValidator(lambda name: driver_meant(name))]
Finite = Annotated[float, AfterValidator(_finite)]
FlowSizes = Annotated[str, AfterValidator(lambda given: asked.flow_sizes(given, may_be_file=_names_checked.get()))]
Seconds = Finite


class TakesNumbers(BaseModel):
    """A strict model that takes numbers as people write them, and numpy's (units.as_kind)."""

    @field_validator("*", mode="before")
    @classmethod
    def _as_kind(cls, given: Any, info: ValidationInfo) -> Any:
        return cls.as_field(info.field_name or "", given)

    @classmethod
    def as_field(cls, name: str, given: Any) -> Any:
        """What is given for that field, as the field has it. Raises ValueError, saying what is no such number."""
        kind = cls._kind_of(name)
        return units.as_kind(given, kind, units.unit_of(name)) if kind and type(given) is not kind else given

    @classmethod
    @cache
    def _kind_of(cls, name: str) -> type | None:
        annotation = cls.model_fields[name].annotation
        kinds = {annotation, *(get_args(annotation) if get_origin(annotation) is UnionType else ())}
        return next((kind for kind in (bool, int, float, str) if kind in kinds), None)


@shows_its_fields("replace")
class Spec(TakesNumbers):
    """What one measurement depends on, in base units.

    Equal specs have equal keys, on every machine. A default is part of the schema: it never changes, so that adding a
    field later does not change the keys of older runs. Raises BadSpec on a wrong parameter, type or value, and on the
    name of a backend, driver, workload or pinning that does not exist.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    experiment: Name = Field("throughput", description="the notebook that measures it, and the folder of the run")
    backend: Name = Field("netns", description="where the containers run")
    driver: DriverName = Field("bridge", description="the network between them")
    pairs: int = Field(1, ge=1, le=5000, description="client/server pairs, all active at once")
    workload: Name = Field("auto", description="traffic tool; auto: iperf where installed, else flowgen")
    duration_s: Seconds = Field(
        10.0, gt=0, le=86400, description="measuring window; for flows of a fixed size, the time limit"
    )
    warmup_s: Seconds = Field(0.0, ge=0, le=3600, description="traffic before the window, not measured")
    interval_s: Seconds = Field(0.5, ge=0.1, le=3600, description="length of one row of intervals and cpu")
    repetition: int = Field(0, ge=0, le=LARGEST, description="number of this repetition of the same cell")
    seed: int = Field(0, ge=0, le=LARGEST, description="of all random choices in the run")
    start_spacing_s: Seconds = Field(
        0.0, ge=0, le=3600, description="each client is released so much later than the one before; 0: all together"
    )
    max_skew_s: Seconds = Field(
        0.1,
        gt=0,
        description="a larger spread of client start times, less when each was due, makes the run invalid",
    )
    max_foreign_cpu: Finite = Field(
        0.1, ge=0, le=1, description="share of all CPU time that other processes may use; more makes the run invalid"
    )
    cpus_awake: bool = Field(
        False,
        description="keep idle CPUs from sleeping: where they sleep, each wake-up takes some µs, in a virtual machine"
        " tens, which are part of each latency; needs root",
    )
    telemetry: bool = Field(
        True, description="sample CPU use, foreign load and counters; off: to measure what sampling costs"
    )
    profile: bool = Field(
        False, description="sample which kernel functions run during the traffic; it costs throughput, and needs root"
    )
    flow_bytes: int = Field(0, ge=0, le=LARGEST, description="payload of each flow; 0: flows end by time only")
    elephant_share: float = Field(
        0.0, ge=0, le=1, description="share of the clients that send elephants, drawn by the seed"
    )
    elephant_bytes: int = Field(0, ge=0, le=LARGEST, description="payload of an elephant's flow")
    flows_per_pair: int = Field(1, ge=1, le=1000, description="parallel flows of each client")
    direction: Literal["up", "down", "both"] = Field(
        "up",
        description="who sends. up: the clients; down: their servers, when asked to; both: at once, each on"
        " flows_per_pair flows",
    )
    message_bytes: int = Field(0, ge=0, le=1 << 26, description="bytes per send call; 0: the tool's default")
    request_bytes: int = Field(
        0, ge=0, le=1 << 22, description="payload of each request (rr); 0: the least, 1 by TCP and 32 by UDP"
    )
    response_bytes: int = Field(
        0, ge=0, le=1 << 22, description="payload of each response (rr); 0: the least, 1 by TCP and 16 by UDP"
    )
    requests_per_s: Finite = Field(
        0.0,
        ge=0,
        le=1e9,
        description="requests of each client, all its connections (flows_per_pair) together; latency counts from when"
        " each was due; 0: each is sent when the response to the one before has come",
    )
    connect_per_request: bool = Field(False, description="a connection of its own for each request")
    flow_sizes: FlowSizes = Field(
        "",
        pattern=r"^[^\x00-\x1f]*$",
        description="distribution of the sizes of flows (traffic): a shipped one's name, or a file, whose points then"
        " take its place; empty: none",
    )
    offered_load_bps: Finite = Field(
        0.0,
        ge=0,
        le=1e13,
        description="payload that the flows of flow_sizes offer; 0: a closed loop, in which flows_per_pair requests are"
        " under way, and one follows when another has ended",
    )
    requests: int = Field(
        0,
        ge=0,
        le=10_000_000,
        description="requests for flows of flow_sizes, which have duration_s; 0: as many as are due in duration_s",
    )
    fan_out: str = Field(
        "1",
        pattern=asked.FAN_OUT,
        description="servers that each request asks at once, for equal parts: 4; or with weights: 1=80 4=20",
    )
    arrivals: Literal["poisson", "fixed"] = Field(
        "poisson", description="when requests are due at an offered load: as a Poisson process, or at fixed gaps"
    )
    ranks: int = Field(
        0,
        ge=0,
        le=256,
        description="containers that take part where all exchange messages with all (all-to-all), the first ones: all,"
        " or all but the last; 0: all",
    )
    udp_share: float = Field(0.0, ge=0, le=1, description="share of the clients that send UDP, drawn by the seed")
    udp_rate_bps: Finite = Field(0.0, ge=0, description="sending rate of each UDP flow; 0: as fast as possible")
    congestion_control: str = Field(
        "", pattern=r"^[a-z0-9_]{0,15}$", description="TCP congestion control; empty: the kernel's default"
    )
    cores: int = Field(0, ge=0, le=4096, description="cores that all containers together may use; 0: all")
    pinning: Name = Field("none", description="policy that binds each container to a core")
    cpu_quota: Finite = Field(0.0, ge=0, le=4096, description="CPUs that each container may use at most; 0: no limit")
    cpu_quota_of_fair_share: Finite = Field(
        0.0,
        ge=0,
        le=100,
        description="the same as a share of each container's fair part: the cores divided by the containers",
    )
    cpu_shares: int = Field(0, ge=0, le=262144, description="CPU weight of each container; 0: the default")
    priority_share: float = Field(
        0.0, ge=0, le=1, description="share of the pairs whose containers have CPU priority, drawn by the seed"
    )
    priority_cpu_shares: int = Field(0, ge=0, le=262144, description="CPU weight of each container with priority")
    mtu_bytes: int = Field(0, ge=0, le=65535, description="MTU of the containers' links; 0: the driver's default")
    link_rate_bps: Finite = Field(
        0.0, ge=0, description="rate of each client's link, link-layer headers included; 0: no limit"
    )
    link_loss: Finite = Field(
        0.0, ge=0, lt=1, description="share of the packets that are dropped as they arrive at each server"
    )
    hosts: int = Field(1, ge=1, le=64, description="hosts that the containers are on")
    placement: Literal["same-host", "across", "one-to-many", "one-to-all", "spread", "packed-but-one"] = Field(
        "same-host",
        description="which host each container is on. same-host: both of a pair on one, pairs in turn; across: clients"
        " on the first half of the hosts, servers on the others; one-to-many: all clients on the first, servers on the"
        " others in turn; one-to-all: all clients on the first, servers on all in turn; spread: all containers in turn;"
        " packed-but-one: the first client on one, all others on the other",
    )
    host_kind: Literal["", "physical", "virtual"] = Field(
        "",
        description="what the hosts are said to be, for who compares them: pairlab makes no virtual machines yet, so"
        " that this names hosts and changes nothing; facts.host.virtualization has what the machine is",
    )
    uplink_rate_bps: Finite = Field(
        0.0, ge=0, description="rate of each host's uplink in each direction, link-layer headers included; 0: no limit"
    )
    uplink_delay_s: Seconds = Field(0.0, ge=0, le=10, description="by how much each host's uplink delays what it sends")
    uplink_jitter_s: Seconds = Field(
        0.0, ge=0, le=10, description="by how much that delay varies, either way; packets may overtake each other"
    )
    uplink_mtu_bytes: int = Field(0, ge=0, le=65535, description="MTU of the hosts' uplinks; 0: 1500")
    limited_uplinks: int = Field(
        0, ge=0, le=64, description="hosts, the last ones, whose uplinks have that rate and delay; 0: all"
    )
    background_pairs: int = Field(
        0,
        ge=0,
        le=1000,
        description="further pairs, that send TCP at full rate from before the others start until these have ended, and"
        " that no result counts; each is on the hosts of the pair of its number",
    )
    background_workload: Name = Field("flowgen", description="traffic tool of the background pairs")
    background_driver: Literal["", "host"] = Field(
        "",
        description="network of the background pairs. host: their hosts' own, so that they share the uplinks with the"
        " others; empty: that of the others",
    )
    interference_workers: int = Field(
        0, ge=0, le=1000, description="processes that use CPU time beside the pairs, on each host of interference_where"
    )
    interference_tool: Literal["flowgen", "stress-ng"] = Field(
        "flowgen",
        description="what they run. flowgen: a loop that touches no memory; stress-ng: its CPU stressor, all of whose"
        " methods take turns",
    )
    interference_load: Finite = Field(
        1.0,
        ge=0.001,
        le=1,
        description="CPUs that each of them uses; 1: it never rests; below: that share of each 0.1 s",
    )
    launches: int = Field(
        0,
        ge=0,
        le=1000,
        description="launches, one after the other, of the server of each pair, all pairs at once: no traffic is sent,"
        " but the time is measured until each runs and answers its client's ping; 0: none",
    )
    idle_pairs: int = Field(
        0, ge=0, le=2000, description="further pairs that run, and send nothing, while others are launched"
    )
    interference_where: Literal["client", "server", "both"] = Field(
        "client", description="the hosts that they are on: those of the clients, of the servers, or both"
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
        return type(self)(**values) if changes.keys() & {*PLUGINS, "flow_sizes"} else self.stored(values)

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
        return words.particulars(self)

    def __repr_args__(self) -> list[tuple[str, Any]]:
        """The values that differ from the defaults: enough to make the spec again."""
        return list(self.model_dump(exclude_defaults=True).items())

    def _repr_html_(self) -> str:
        return words.card(self)

    def __str__(self) -> str:
        return words.line(self)


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


#: Parameters of experiment notebooks that say how to measure, not what.
NOT_IN_SPEC = ("fresh",)


def spec_from(namespace: Mapping[str, Any], *, experiment: str) -> Spec:
    """The Spec of a notebook's parameters; call it with globals() right after the cell that holds them.

    Every plain literal in the namespace counts as a parameter, so that a misspelt one is refused (papermill would only
    warn); so does every name of a Spec's parameter. Raises BadSpec.
    """
    plain = (str, int, float, bool)
    given = {
        name: value
        for name, value in namespace.items()
        if (isinstance(value, plain) or name in Spec.model_fields)
        and not name.startswith("_")
        and name not in NOT_IN_SPEC
    }
    return Spec(experiment=experiment, **given)


def require_spec(spec: Any, function: str) -> None:
    """Raises BadSpec, saying how to call that function, where it was not given a Spec."""
    if not isinstance(spec, Spec):
        values = "**values" if isinstance(spec, Mapping) else 'driver="bridge", pairs=5'
        raise BadSpec(f"{function} needs a Spec, not {_article(type(spec).__name__)}: {function}(Spec({values}))")


def _article(noun: str) -> str:
    return f"a{'n' * (noun[:1].lower() in 'aeiou')} {noun}"


def _explain(error: ValidationError, model: type[BaseModel]) -> str:
    lines = []
    for detail in error.errors():
        name = ".".join(str(part) for part in detail["loc"])
        if detail["type"] == "extra_forbidden":
            close = difflib.get_close_matches(name, model.model_fields, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            lines.append(f"no parameter {name!r}{hint} (there are: {', '.join(model.model_fields)})")
        elif detail["type"] == "value_error":
            lines.append(f"{name + ': ' if name else ''}{detail['ctx']['error']}")
        else:
            lines.append(f"{name}: {detail['msg'][0].lower()}{detail['msg'][1:]}, not {_shown(detail['input'])}")
    return "; ".join(lines)


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # an integer of thousands of digits, or somebody's own class
        return f"a value that cannot be shown ({type(value).__name__})"
    return text if len(text) <= 80 else f"{text[:77]}..."
