"""Description of flow size distributions."""

import json
import shlex
from pathlib import Path

import click

from pairlab.base.printing import echo
from pairlab.cli import options

#: Default number of hosts of experiment dc-simulation: each has a server.
_HOSTS = 3


@click.command()
@click.argument("name", metavar="FILE|NAME")
@click.option("--figure", type=click.Path(path_type=Path), help="Also draw it into this .pdf, .png or .svg.")
@click.option(
    "--unit",
    "unit_bytes",
    type=click.FloatRange(min=0, min_open=True),
    default=1,
    metavar="BYTES",
    help="Bytes of a unit of the file's sizes, where they are not in bytes; 1460 for packets.",
)
@options.as_json()
def cdf(name, figure, unit_bytes, as_json):
    """Show a distribution of flow sizes.

    Its CDF, mean, median, p99 and the bytes in the largest flows.

    A FILE has a size and a cumulative share on each line, as those of Empirical Traffic Generator, or a count between
    the two. Of a client configuration of Empirical Traffic Generator or HKUST's TrafficGenerator, it is the one that
    this names, with the command that measures such traffic. Shipped are dctcp-web-search, facebook, fixed, prv2-1,
    uniform and vl2:

    pairlab cdf prv2-1 --figure prv2-1.pdf
    """
    from pairlab.model import etg_config, flow_sizes

    config = etg_config.read(Path(name)) if etg_config.is_one(Path(name)) else None
    sizes = flow_sizes.load(config.size_cdf if config else name, unit_bytes=unit_bytes)
    if figure:
        from pairlab.analysis.figures import cdf, files

        files.write(cdf.flow_sizes(sizes), figure, f"flow sizes of {sizes.name}")
    if as_json:
        median, p99 = (int(size) for size in sizes.quantile([0.5, 0.99]))
        facts = {
            "name": sizes.name,
            "title": sizes.title,
            "source": sizes.source,
            "joined": sizes.joined,
            "mean_bytes": sizes.mean_bytes,
            "median_bytes": median,
            "p99_bytes": p99,
            "share_of_bytes_in_largest_tenth": sizes.share_of_bytes(0.1),
        }
        if config:
            facts["parameters"] = config.parameters
        points = zip(sizes.sizes.tolist(), sizes.shares.tolist(), strict=True)
        echo(json.dumps({**facts, "points": [list(point) for point in points]}))
        return
    echo(f"{sizes.name}: {sizes.title}" if sizes.title else sizes.name)
    echo(flow_sizes.as_text(sizes))
    echo(flow_sizes.described(sizes))
    for label, text in (("source", sizes.source), ("points joined", sizes.joined)):
        if text:
            echo(f"{label}: {text}")
    if config:
        parameters = {key: value for key, value in config.parameters.items() if key != "workload"}
        if len(config.servers) < _HOSTS:
            parameters |= {"hosts": 1, "placement": "same-host", "uplink_rate_bps": 0.0, "limited_uplinks": 0}
        words = " ".join(f"-p {key}={shlex.quote(str(value))}" for key, value in parameters.items())
        echo(f"to measure it: pairlab run dc-simulation {words}")
        if config.load_bps is None:
            echo("its client's -b 900 is: -p offered_load_bps=900e6, and its -n 5000: -p requests=5000")
    if figure:
        echo(f"figure: {figure}")
