"""flowgen traffic: one client asks all servers for flows of sizes from a distribution, at a load."""

import json

from pairlab.errors import BadSpec
from pairlab.model.traffic import asked
from pairlab.testbed import token
from pairlab.testbed.contracts import FlowTable, Measured, Workload

#: flowgen's own limit: schedule.h.
MOST_SERVERS = 16

#: How long flows may take beyond duration_s, where requests are due until then.
AFTER_S = 5.0

#: Files in the testbed's working directory: the distribution's points, and the flows as the client writes them.
_SIZES, _FLOWS = "flow-sizes", "flows"

_AS_RECORDED = ("received_bytes", "intended_ns", "start_ns", "first_byte_ns", "completed_ns")


class Traffic(Workload):
    """Flows as of a data centre: one client, the first pair's, asks the servers of all pairs for them.

    A request is for a flow of a size from flow_sizes, of one server; with fan_out, for equal parts of several at once.
    The client keeps flows_per_pair connections to each server; a flow that finds all of them busy waits, and its
    completion time counts from when it was due (intended_fct_s) and from when it was asked for (fct_s). At a load,
    requests are due whether others have ended or not; in a closed loop, flows_per_pair of them are under way.

    Each flow is a row of `flows`, whose pair is its server's.
    """

    name = "traffic"
    summary = "flowgen traffic: flows of sizes from a distribution, from all servers to one client"
    can = frozenset({"time", "sizes", "flows"})
    one_client = True

    @classmethod
    def version_command(cls, flowgen):
        return (flowgen, "version")

    def check(self, spec):
        if spec.pairs > MOST_SERVERS:
            raise BadSpec(f"pairs: traffic has one client for at most {MOST_SERVERS} servers, not {spec.pairs}")
        if not spec.flow_sizes:
            raise BadSpec("flow_sizes: traffic makes flows from a distribution: name one, or a file")
        if spec.requests and spec.offered_load_bps and (lasts_s := asked.expected_s(spec)) > spec.duration_s:
            load = f"{spec.offered_load_bps / 1e6:g} Mbit/s"
            raise BadSpec(
                f"duration_s: {spec.requests:,} requests at {load} take about {lasts_s:.3g} s, not"
                f" {spec.duration_s:g}: give more time, fewer requests, or a higher load"
            )

    def prepare(self, spec, directory):
        from pairlab.model.traffic import flow_sizes  # numpy, without which specs are made

        token.write(directory)
        flow_sizes.write(flow_sizes.load(spec.flow_sizes), directory / _SIZES)
        (directory / _SIZES).chmod(0o644)  # a container's user is not ours
        (directory / _FLOWS).touch()
        (directory / _FLOWS).chmod(0o666)

    def server(self, pair, spec, site):
        argv = [site.flowgen, "server", "--bind", pair.server.address, "--port", str(pair.port), "--answer"]
        return [*argv, *token.options(site)]

    def client(self, pair, spec, site):
        argv = [site.flowgen, "traffic", *token.options(site)]
        for address, port in pair.targets:
            argv += ["--server", f"{address}:{port}"]
        for servers, weight in asked.fan_outs(spec.fan_out).items():
            argv += ["--fan-out", f"{servers}={weight}"]
        argv += ["--sizes", f"{site.directory}/{_SIZES}", "--records", f"{site.directory}/{_FLOWS}"]
        argv += ["--load", str(round(spec.offered_load_bps)), "--connections", str(spec.flows_per_pair)]
        argv += ["--seed", str(seed_of(spec))]
        argv += ["--fixed-gaps"] if spec.arrivals == "fixed" else []
        argv += [] if spec.offered_load_bps else ["--at-once", str(spec.flows_per_pair)]
        if spec.requests:
            return [*argv, "--requests", str(spec.requests), "--within", f"{spec.duration_s:g}"]
        return [*argv, "--duration", f"{spec.duration_s:g}", "--within", f"{spec.duration_s + AFTER_S:g}"]

    def parse(self, stdout, served=""):
        try:
            (line,) = [json.loads(line) for line in stdout.splitlines()]
        except (ValueError, RecursionError) as error:
            raise ValueError(f"traffic printed no complete report: {error}") from None
        try:
            if line["event"] != "traffic":
                raise ValueError("traffic printed no report of its flows")
            if not line["flow_bytes"]:
                return [Measured({}, error=f"traffic: {line.get('error') or 'no flow was complete'}")]
            totals = {key: float(line[key]) for key in ("flow_bytes", "duration_s")}
            return [Measured({**totals, "throughput_bps": float(line["achieved_bps"])})]
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"traffic's report is incomplete: {error!r}") from None

    def flow_table(self, spec, directory):
        import numpy as np

        from pairlab.model.traffic import flow_records

        flows = flow_records.read(directory / _FLOWS)
        if not len(flows):
            raise ValueError("traffic recorded no flow")
        flows = flows[np.lexsort((flows["server"], flows["request"]))]
        return FlowTable(
            pair=flows["server"].astype(np.int64),
            request=flows["request"],
            size_bytes=flows["flow_bytes"],
            errno=flows["error"],
            **{name: flows[name] for name in _AS_RECORDED},
        )


def seed_of(spec):
    """flowgen's seed: another draw for each repetition, and the same for all drivers and backends."""
    return (spec.seed * 1_000_003 + spec.repetition) % 10**15
