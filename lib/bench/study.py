"""`python -m bench.study [n]`: do our intervals hold, and our tests find nothing where there is nothing?

Each procedure meets n simulated data sets whose truth is known, clustered as flows are. An interval should hold the
truth as often as it says, a test find a difference that is not there no more often than alpha. `tests` checks the
same in small; this is for the numbers. Rows that say "over flows" are what we do not do, and why.
"""

import sys
import time
import zlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import stats

from bench.table import paced
from pairlab.statistics import changes as changes_of
from pairlab.statistics import quantiles, tests
from pairlab.statistics.clusters import Clusters
from pairlab.statistics.correlation import correlation
from pairlab.statistics.intervals import FROM_ONE, POSITIVE, SHARE, mean_interval
from tests.support import evidence
from tests.support.simulated import by_repetition, clustered, correlated, holds, permuted, several_groups, two_groups

CONFIDENCE, ALPHA = 0.95, 0.05
#: How far below its nominal level an interval may hold and still be called near it.
SLACK = 0.03


class Procedure(NamedTuple):
    name: str
    #: On data drawn from this generator: does the interval hold the truth, or the test find a difference?
    hit: Callable[[np.random.Generator], bool]
    nominal: float
    #: What is allowed of its share of hits; None for what only shows why we do otherwise.
    bounds: tuple[float, float] | None


def interval(name, hit, least=CONFIDENCE - SLACK):
    return Procedure(name, hit, CONFIDENCE, (least, 1.0))


def test(name, hit):
    return Procedure(name, hit, ALPHA, (0.0, ALPHA))


def means():
    def mean(repetitions, between):
        def hit(random):
            values, _ = clustered(random, repetitions, 20, between=between)
            return holds(mean_interval(values.reshape(repetitions, 20).mean(axis=1), CONFIDENCE), 0.0)

        return hit

    yield interval("mean_interval, 3 repetitions", mean(3, 1.0))
    yield interval("mean_interval, 10 repetitions", mean(10, 1.0))
    bounded = {
        "rates": (POSITIVE, lambda random, n: random.lognormal(0, 0.3, n), np.exp(0.3**2 / 2)),
        "shares near one": (SHARE, lambda random, n: random.beta(30, 2, n), 30 / 32),
        "ratios above one": (FROM_ONE, lambda random, n: 1 + random.lognormal(0, 0.3, n), 1 + np.exp(0.3**2 / 2)),
    }
    for name, (scale, draw, truth) in bounded.items():
        for repetitions in (3, 5, 10):
            yield interval(
                f"mean_interval of {name}, {repetitions} repetitions",
                lambda random, scale=scale, draw=draw, truth=truth, n=repetitions: holds(
                    mean_interval(draw(random, n), CONFIDENCE, scale), truth
                ),
            )
    over_flows = lambda random: holds(mean_interval(clustered(random, 10, 20, between=1.0)[0], CONFIDENCE), 0.0)  # noqa: E731
    yield Procedure("mean over flows, 10 repetitions", over_flows, CONFIDENCE, None)


def lognormal(random, repetitions, flows, between, mean=0.0):
    values, labels = clustered(random, repetitions, flows, between=between, within=0.5, mean=mean)
    return np.exp(values), labels


def percentiles():
    def hit(q, repetitions, flows, between):
        truth = np.exp(stats.norm.ppf(q) * np.hypot(between, 0.5))
        return lambda random: holds(
            quantiles.percentile(
                Clusters.of(*lognormal(random, repetitions, flows, between)), q, resamples=500
            ).estimate(),
            truth,
        )

    cases = [(0.5, 3, 100), (0.5, 10, 100), (0.9, 4, 100), (0.9, 5, 1000)]
    for q, repetitions, flows in (*cases, (0.99, 3, 1000), (0.99, 10, 1000), (0.99, 10, 100)):
        name = f"percentile, p{100 * q:g}, {repetitions} repetitions of {flows} flows"
        # The function's docstring says 90 to 97 %.
        yield interval(name, hit(q, repetitions, flows, 0.1), least=0.9)
    yield interval("percentile, p90, repetitions that do not differ", hit(0.9, 4, 1000, 0.0), least=0.9)
    # That much it admits.
    yield interval("percentile, p99, repetitions differ as flows do", hit(0.99, 10, 100, 0.5), least=0.8)


def changes():
    def hit(q, repetitions, paired):
        def once(random):
            drift = random.normal(0, 0.1, repetitions)
            sides = []
            for shift in (0.0, np.log(1.3)):
                values, labels = lognormal(random, repetitions, 100, 0.1, shift)
                sides.append(Clusters.of(values * np.exp(drift[labels] if paired else 0), labels))
            return holds(quantiles.percent_change(*sides, q, paired=paired, resamples=500).estimate(), 30.0)

        return once

    for q in (0.5, 0.99):
        for paired in (False, True):
            name = f"percent_change, p{100 * q:g}, 5 repetitions, {'paired' if paired else 'apart'}"
            yield interval(name, hit(q, 5, paired))


def correlations():
    def hit(repetitions, clients, method):
        truth = -0.5
        if method != "pearson":  # no formula for so many clients: what very many repetitions give
            many = correlated(np.random.default_rng(0), 2000, clients)
            truth = correlation(*many, method=method).estimate().value
        return lambda random: holds(
            correlation(*correlated(random, repetitions, clients), method=method).estimate(), truth
        )

    for method, repetitions, clients in (
        ("pearson", 3, 10),
        ("pearson", 3, 50),
        ("pearson", 10, 50),
        ("spearman", 3, 50),
        ("kendall", 3, 50),
        ("kendall", 10, 10),
    ):
        yield interval(
            f"correlation, {method}, {repetitions} repetitions of {clients} clients", hit(repetitions, clients, method)
        )

    def pooled(random):
        x, y, _ = correlated(random, 10, 50)
        z, half = np.arctanh(np.corrcoef(x, y)[0, 1]), 1.96 / np.sqrt(x.size - 3)
        return z - half <= np.arctanh(-0.5) <= z + half

    def bootstrap(repetitions):
        def hit(random):
            x, y, _ = (part.reshape(repetitions, 50) for part in correlated(random, repetitions, 50, drift=0.0))
            draws = random.integers(0, repetitions, (500, repetitions))
            sums = np.stack([part.sum(axis=1)[draws].sum(axis=1) for part in (x, y, x * x, y * y, x * y)])
            mx, my, xx, yy, xy = sums / (50 * repetitions)
            low, high = np.quantile((xy - mx * my) / np.sqrt((xx - mx**2) * (yy - my**2)), [0.025, 0.975])
            return low <= truth <= high

        # The pooled coefficient of many repetitions without drift is the mean of theirs.
        truth = np.tanh(np.arctanh(-0.5) + 0.3 * np.random.default_rng(0).normal(size=200_000)).mean()
        return hit

    yield Procedure("correlation over flows, 10 repetitions", pooled, CONFIDENCE, None)
    for repetitions in (5, 20):
        name = f"correlation, bootstrap of {repetitions} repetitions, no drift"
        yield Procedure(name, bootstrap(repetitions), CONFIDENCE, None)


def effects():
    def delta(n, shift):
        truth = 2 * stats.norm.cdf(shift / np.sqrt(2)) - 1
        return lambda random: holds(
            tests.cliffs_delta_interval(random.normal(shift, 1, n), random.normal(0, 1, n)), truth
        )

    def ratio(random):
        table = by_repetition(*two_groups(random, 5, 50, shift=np.log(1.3), drift=0.3, between=0.1))
        sides = [np.exp(table.loc[table["group"] == name, "value"]) for name in "ab"]
        return holds(changes_of.ratio(*sides).estimate(), 30.0)

    yield interval("cliffs_delta_interval, 5 repetitions, no effect", delta(5, 0.0))
    yield interval("cliffs_delta_interval, 10 repetitions, strong effect", delta(10, 1.0))
    yield interval("changes.ratio, 5 repetitions", ratio)


def tests_of_groups():
    def kruskal(groups, repetitions):
        return lambda random: (
            tests.kruskal(several_groups(random, groups, repetitions, 20), "value", "group").p <= ALPHA
        )

    def pairwise(groups, repetitions):
        return lambda random: tests.pairwise(several_groups(random, groups, repetitions, 20), "value", "group")[
            "different"
        ].any()

    for groups, repetitions in ((3, 3), (4, 5), (4, 10)):
        yield test(f"kruskal, {groups} groups of {repetitions} repetitions", kruskal(groups, repetitions))
    for groups, repetitions in ((2, 5), (4, 5), (4, 10)):
        yield test(f"pairwise, any of {groups} groups of {repetitions} repetitions", pairwise(groups, repetitions))

    def over_flows(random):
        values, labels = clustered(random, 12, 20)
        return stats.kruskal(*values.reshape(4, -1)).pvalue <= ALPHA and labels.size == values.size

    yield Procedure("kruskal over flows, 4 groups of 3 repetitions", over_flows, ALPHA, None)


def permutations():
    def hit(repetitions, flows, blocks, sizes=(1, 1)):
        def once(random):
            values, labels, groups = two_groups(random, repetitions, flows, drift=0.5 if blocks else 0.0)
            # A group of fewer flows in each repetition: the first ones.
            kept = np.tile(np.arange(flows), 2 * repetitions) < flows * np.where(groups == "a", *sizes)
            values, labels, groups = np.exp(values[kept]), labels[kept], groups[kept]
            return permuted(values, labels, groups, permutations=999, swapped=blocks).p <= ALPHA

        return once

    yield test("permutation.of_clusters, 5 and 5 repetitions, exact", hit(5, 50, False))
    yield test("permutation.of_clusters, 10 and 10 repetitions, drawn", hit(10, 50, False))
    yield test("permutation.of_clusters, 6 blocks, exact", hit(6, 50, True))
    yield test("permutation.of_clusters, 12 blocks, drawn", hit(12, 50, True))
    yield test("permutation.of_clusters, 5 and 5 repetitions of 10 and 100 flows", hit(5, 100, False, (0.1, 1)))
    yield test("permutation.of_clusters, 8 blocks of 10 and 100 flows", hit(8, 100, True, (0.1, 1)))

    def over_flows(random):
        values, _, groups = two_groups(random, 5, 50)
        return stats.ks_2samp(values[groups == "a"], values[groups == "b"]).pvalue <= ALPHA

    yield Procedure("Kolmogorov-Smirnov over flows, 5 and 5 repetitions", over_flows, ALPHA, None)


def calibrations():
    def compared(random, repetitions, cost):
        drift = random.normal(0, 0.1, repetitions)
        first, second = (np.exp(drift + random.normal(0, 0.03, repetitions)) for _ in range(2))
        return changes_of.change(first, (1 - cost) * second)

    def covers(found, percent):
        return found.low_percent <= percent <= found.high_percent

    for repetitions in (3, 5, 20):
        told = f"{repetitions} repetitions"
        yield test(f"compare, A against A, {told}", lambda random, n=repetitions: compared(random, n, 0.0).differs())
        for cost in (0.05, 0.1, 0.2):
            yield interval(
                f"compare, planted -{cost:.0%}, {told}",
                lambda random, n=repetitions, cost=cost: covers(compared(random, n, cost), -100 * cost),
            )


FAMILIES = (means, percentiles, changes, correlations, effects, tests_of_groups, permutations, calibrations)


def study(procedure, n):
    """How often it hits in n data sets, and whether that is within its bounds but for chance (1 in 1000)."""
    random = np.random.default_rng(zlib.crc32(procedure.name.encode()))
    hits = sum(bool(procedure.hit(random)) for _ in range(n))
    if procedure.bounds is None:
        return hits / n, None
    chance = stats.binomtest(hits, n).proportion_ci(0.998, "exact")
    low, high = procedure.bounds
    return hits / n, chance.high >= low and chance.low <= high


def main(n=1000):
    """Prints the table; whether all is as it should be."""
    begun, out = time.monotonic(), Console(highlight=False)
    table = Table("procedure", "nominal", "found", "bound", "simulations", "met", title="intervals and tests")
    every = []
    procedures = {procedure.name: procedure for family in FAMILIES for procedure in family()}
    for name in paced(procedures, evidence.CACHE / f"study-{n}-took.json", out):
        procedure = procedures[name]
        found, met = study(procedure, n)
        every.append(met is not False)
        bound = "for comparison"
        if procedure.bounds:
            low, high = procedure.bounds
            bound = f"at most {high:g}" if high < 1 else f"at least {low:g}"
        verdict = {True: "yes", False: "[red]NO[/]", None: ""}[met]
        table.add_row(name, f"{procedure.nominal:g}", f"{found:.3f}", bound, str(n), verdict)
    out.print(table)
    out.print(f"{time.monotonic() - begun:.0f} s")
    return all(every)


if __name__ == "__main__":
    sys.exit(0 if main(*map(int, sys.argv[1:])) else 1)
