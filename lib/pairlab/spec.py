"""Spec: all that one measurement depends on; frozen, validated, hashed to a key."""

import difflib
import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from pairlab import cards, quantities
from pairlab.errors import BadSpec
from pairlab.signature import shows_its_fields

#: The largest integer that a table's int64 column holds.
LARGEST = 2**63 - 1

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,39}$")]


def _finite(value: float) -> float:
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError("must be a finite number")
    return value


Finite = Annotated[float, AfterValidator(_finite)]
Seconds = Finite


@shows_its_fields("replace")
class Spec(BaseModel):
    """What one measurement depends on, in base units.

    Equal specs have equal keys, on every machine. A default is part of the schema: it never changes, so that a field
    added later leaves the keys of older runs as they were. Raises BadSpec on a wrong name, type or value.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    experiment: Name = Field("throughput", description="whose notebook measures it, and whose folder keeps the run")
    backend: Name = Field("netns", description="where the pairs live")
    driver: Name = Field("bridge", description="their network")
    pairs: int = Field(1, ge=1, le=5000, description="client/server pairs, all active at once")
    workload: Name = Field("auto", description="traffic tool; auto: iperf where installed, else flowgen")
    duration_s: Seconds = Field(
        10.0, gt=0, le=86400, description="measuring window; of flows with an end, the time they have for it"
    )
    warmup_s: Seconds = Field(0.0, ge=0, le=3600, description="traffic before the window, left out of it")
    interval_s: Seconds = Field(0.5, ge=0.1, le=3600, description="length of one row of intervals and cpu")
    repetition: int = Field(0, ge=0, le=LARGEST, description="which of the repetitions of the same cell")
    seed: int = Field(0, ge=0, le=LARGEST, description="drawn from for every random choice in the run")
    max_skew_s: Seconds = Field(0.1, gt=0, description="a larger spread of client starts makes the run invalid")
    max_foreign_cpu: Finite = Field(
        0.1, ge=0, le=1, description="share of all CPU time that others may take meanwhile; more makes the run invalid"
    )
    telemetry: bool = Field(True, description="sample CPU use, foreign load and counters; off: to see what that costs")
    flow_bytes: int = Field(
        0, ge=0, le=LARGEST, description="payload of each flow, which then ends; 0: no end but time"
    )
    elephant_share: float = Field(0.0, ge=0, le=1, description="share of the clients that send elephants, by the seed")
    elephant_bytes: int = Field(0, ge=0, le=LARGEST, description="payload of an elephant's flow")
    flows_per_pair: int = Field(1, ge=1, le=1000, description="flows of each client at once")
    message_bytes: int = Field(0, ge=0, le=1 << 26, description="bytes handed over in one call; 0: the tool's own")
    udp_share: float = Field(0.0, ge=0, le=1, description="share of the clients that send UDP, by the seed")
    udp_rate_bps: Finite = Field(0.0, ge=0, description="rate that each UDP flow sends at; 0: as fast as it can")
    congestion_control: str = Field("", pattern=r"^[a-z0-9_]{0,15}$", description="of TCP; empty: the kernel's default")
    cores: int = Field(0, ge=0, le=4096, description="cores that all containers together may use; 0: all")
    pinning: Name = Field("none", description="which core each container is bound to, by policy")
    cpu_quota: Finite = Field(0.0, ge=0, le=4096, description="CPUs that each container may use at most; 0: no limit")
    cpu_shares: int = Field(0, ge=0, le=262144, description="weight of each container's CPU time; 0: the default")
    link_rate_bps: Finite = Field(
        0.0, ge=0, description="what each client's link carries, link-layer headers included; 0: as much as it can"
    )
    link_loss: Finite = Field(0.0, ge=0, lt=1, description="share of the packets that each server loses on arrival")
    hosts: Literal[1] = Field(1, description="machines that the containers are on")
    placement: Literal["same-host"] = Field("same-host", description="where a pair's server is, seen from its client")

    def __init__(self, /, **values: Any):
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise BadSpec(_explain(error, type(self))) from None

    @model_validator(mode="after")
    def _intervals_fit(self):
        if self.interval_s > self.duration_s:
            raise ValueError(f"interval_s {self.interval_s:g} is longer than duration_s {self.duration_s:g}")
        if abs(self.warmup_s / self.interval_s - round(self.warmup_s / self.interval_s)) > 1e-6:
            raise ValueError(
                f"warmup_s {self.warmup_s:g} must be a whole number of intervals of {self.interval_s:g} s,"
                " as what is left out is left out by intervals"
            )
        return self

    @model_validator(mode="after")
    def _flows_fit(self):
        if bool(self.elephant_share) != bool(self.elephant_bytes):
            raise ValueError("elephant_share and elephant_bytes belong together: give both or neither")
        if self.elephant_share and not self.flow_bytes:
            raise ValueError("elephants need mice: give flow_bytes, the payload of all other clients' flows")
        if self.flow_bytes and self.warmup_s:
            raise ValueError("a flow of flow_bytes has no warm-up: leave warmup_s at 0")
        if self.flow_bytes and self.udp_share:
            raise ValueError("UDP has no end that both sides know of: flow_bytes goes with TCP only")
        if self.udp_rate_bps and not self.udp_share:
            raise ValueError("udp_rate_bps is for UDP flows: give udp_share, the share of the clients that send them")
        return self

    def replace(self, /, **changes: Any) -> "Spec":
        """The same spec with some values changed, validated again. changes: by the names of Spec's parameters."""
        return type(self)(**{**self.model_dump(), **changes})

    @property
    def key(self) -> str:
        """16 hex digits that name this spec: SHA-256 over the values that differ from the defaults."""
        told = json.dumps(self.model_dump(exclude_defaults=True), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    @property
    def total_s(self) -> float:
        """How long each client sends: warm-up and window."""
        return self.warmup_s + self.duration_s

    @property
    def particulars(self) -> list[str]:
        """What this measurement has beyond pairs that each send one TCP flow; in words, a piece each."""
        aside = [
            (self.elephant_share, f"{self.elephant_share * 100:g} % elephants of {self.elephant_bytes:,} B"),
            (self.flows_per_pair > 1, f"{self.flows_per_pair} flows per pair"),
            (self.message_bytes, f"messages of {self.message_bytes:,} B"),
            (self.udp_share, f"{self.udp_share * 100:g} % UDP"),
            (self.udp_rate_bps, f"at {self.udp_rate_bps / 1e6:g} Mbit/s"),
            (self.congestion_control, self.congestion_control),
            (self.cores, f"{self.cores} core{'s' * (self.cores != 1)}"),
            (self.pinning != "none", f"pinned to {self.pinning}"),
            (self.cpu_quota, f"{self.cpu_quota:g} CPUs per container"),
            (self.cpu_shares, f"{self.cpu_shares} CPU shares"),
            (not self.telemetry, "without telemetry"),
            (self.link_rate_bps, f"links of {self.link_rate_bps / 1e6:g} Mbit/s"),
            (self.link_loss, f"{self.link_loss * 100:g} % loss"),
        ]
        return [text for given, text in aside if given]

    def __repr_args__(self) -> list[tuple[str, Any]]:
        """What differs from the defaults: enough to make it again."""
        return list(self.model_dump(exclude_defaults=True).items())

    def _repr_html_(self) -> str:
        return cards.card(
            f"{_count(self.pairs, 'pair')} over {self.driver}",
            [
                ("experiment", self.experiment),
                ("backend", self.backend),
                ("traffic", f"{self.workload}, {self._lasts}"),
                ("besides", ", ".join(self.particulars)),
                (
                    "invalid where",
                    f"starts are more than {quantities.told(self.max_skew_s, 's')} apart, or others take more"
                    f" than {self.max_foreign_cpu * 100:g} % of the CPU time",
                ),
                ("repetition", f"{self.repetition}, with seed {self.seed}"),
                ("key", self.key),
            ],
            badge="spec",
        )

    @property
    def _lasts(self) -> str:
        within = f"{self.duration_s:g} s"
        if self.flow_bytes:
            return f"flows of {quantities.told(self.flow_bytes, 'B')} each, which have {within}"
        return f"{within} after a warm-up of {self.warmup_s:g} s" if self.warmup_s else within

    def __str__(self) -> str:
        """What tells this cell from the others of its sweep, in a line."""
        lasts = f"{self.flow_bytes:,} B each" if self.flow_bytes else f"{self.duration_s:g} s"
        told = "".join(f", {text}" for text in self.particulars)
        return (
            f"{self.experiment}: {self.workload} over {self.driver}, {self.pairs} pair{'s' * (self.pairs != 1)},"
            f" {lasts}{told}, repetition {self.repetition} ({self.backend})"
        )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


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
