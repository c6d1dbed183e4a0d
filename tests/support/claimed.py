"""Claims, one by each estimator, and cells whose effect on each is set, so that the verdict is forced."""

import numpy as np

from pairlab.analysis.claims import verdicts
from pairlab.analysis.claims.ledger import Claim, Source
from pairlab.store.dataset import Runs
from tests.support.synthetic import bulk, ending

REPETITIONS = 5


def throughput(factor, **cell):
    return bulk(np.full(cell.pop("clients", 5), 2.0 * factor), **cell)


def by_pairs(effect, noise, repetition):
    drift = np.exp(noise())
    yield throughput(drift, clients=2, repetition=repetition)
    yield throughput(drift * 0.4 * np.exp(effect + noise()), clients=5, repetition=repetition)


def by_trend(effect, noise, repetition):
    for count in (2, 4, 8):
        share = np.exp(effect * np.log(count / 2) / np.log(4) + noise())
        yield throughput(share / count, clients=count, repetition=repetition)


def by_driver(effect, noise, repetition):
    yield throughput(np.exp(noise()), driver="bridge", repetition=repetition)
    yield throughput(np.exp(effect + noise()), driver="ovs", repetition=repetition)


def by_busy(effect, noise, repetition):
    yield bulk([1, 1], busy=float(np.clip(0.8 + effect + noise(), 0, 1)), repetition=repetition)


def by_correlation(effect, noise, repetition):
    random = np.random.default_rng(repetition)
    wanted = np.tanh(effect + noise())
    across = stats_normal(random, 30)
    beside = stats_normal(random, 30)
    beside = beside - across * (beside @ across) / (across @ across)
    beside *= np.linalg.norm(across) / np.linalg.norm(beside)
    retransmits = 100 + wanted * across + np.sqrt(1 - wanted**2) * beside
    yield bulk(10 + across, retransmits=retransmits, experiment="retransmissions", repetition=repetition)


def stats_normal(random, count):
    values = random.normal(size=count)
    return values - values.mean()


def by_percentile(effect, noise, repetition):
    random = np.random.default_rng(repetition)
    for count, shift in ((10, 0), (20, effect)):
        yield ending(0.1 * np.exp(random.uniform(0, 0.1, count) + shift + noise()), repetition=repetition)


def by_experiment(effect, noise, repetition):
    yield ending(np.linspace(0.1, 0.2, 5) * np.exp(noise()), repetition=repetition)
    mice = np.append(np.linspace(0.1, 0.2, 4) * np.exp(effect + noise()), 5.0)
    yield ending(mice, roles=["mouse"] * 4 + ["elephant"], repetition=repetition)


def by_role(effect, noise, repetition):
    roles = ["mouse"] * 4 + ["elephant"]
    for driver, mouse, elephant in (("bridge", 1.1, 1.1 * np.exp(effect + noise())), ("ovs", 1.0, 1.0)):
        fcts = np.append(np.full(4, 0.1 * mouse), 2.0 * elephant)
        yield ending(fcts, roles=roles, driver=driver, repetition=repetition)


def by_core_ratio(effect, noise, repetition):
    for cores, steps in ((4, 0), (2, 1), (1, 2)):
        fcts = np.full(4, 0.1 * np.exp(steps / 2 * effect + noise()))
        yield ending(fcts, experiment="core-ratio", cores=cores, repetition=repetition)


def by_core_ratio_gap(effect, noise, repetition):
    for cores, gap in ((4, 0.1), (1, 0.1 + effect)):
        for driver, slower in (("bridge", gap + noise()), ("ovs", 0.0)):
            fcts = np.full(4, 0.4 / cores * np.exp(slower))
            yield ending(fcts, experiment="core-ratio", cores=cores, driver=driver, repetition=repetition)


def by_core_ratio_gap_ms(effect, noise, repetition):
    for cores, gap in ((4, 20), (1, 20 + 100 * effect)):
        for driver, slower in (("bridge", gap + 100 * noise()), ("ovs", 0.0)):
            fcts = np.full(4, 0.2 / cores + 1e-3 * slower)
            yield ending(fcts, experiment="core-ratio", cores=cores, driver=driver, repetition=repetition)


def by_pinning(effect, noise, repetition):
    for policy, shift in (("none", 0), ("same-core", effect)):
        yield throughput(np.exp(shift + noise()), experiment="pinning", pinning=policy, repetition=repetition)


def by_message_size(effect, noise, repetition):
    for doublings in (0, 3, 6):
        size, shift = 1024 << doublings, effect * doublings + noise()
        yield throughput(np.exp(shift), experiment="message-size", message_bytes=size, repetition=repetition)


#: estimator: parameters, where the effect is 0, the margin (both as shown), and what makes its cells
CASES = {
    "pairs_change": ({"driver": "bridge", "pairs": [2, 5]}, 0, 5, by_pairs),
    "pairs_trend": ({"driver": "bridge", "pairs": ["least", "most"]}, 0, 5, by_trend),
    "drivers_change": ({"drivers": ["ovs", "bridge"], "pairs": 5}, 0, 5, by_driver),
    "share": ({"driver": "bridge", "pairs": 2, "what": "busy"}, 0.8, 0.04, by_busy),
    "correlation": ({"driver": "bridge", "pairs": 30}, 0, 0.08, by_correlation),
    "percentile_change": ({"driver": "bridge", "pairs": [10, 20], "q": 0.9}, 0, 5, by_percentile),
    "experiments_change": (
        {"driver": "all", "pairs": "most", "of": ["elephant-mice", "mouse_max_s"], "over": ["fct", "fct_max_s"]},
        0,
        5,
        by_experiment,
    ),
    "roles_gap": (
        {"drivers": ["bridge", "ovs"], "pairs": 5, "roles": ["elephant_median_s", "mouse_median_s"]},
        0,
        5,
        by_role,
    ),
    "core_ratio_change": ({"driver": "bridge", "what": "fct_mean_s"}, 0, 5, by_core_ratio),
    "core_ratio_gap": ({"drivers": ["bridge", "ovs"], "what": "fct_mean_s"}, 0, 5, by_core_ratio_gap),
    "core_ratio_gap_ms": ({"drivers": ["bridge", "ovs"]}, 0, 5, by_core_ratio_gap_ms),
    "pinning_change": ({"driver": "bridge", "policy": "same-core"}, 0, 5, by_pinning),
    "message_size_trend": ({"driver": "bridge"}, 0, 5, by_message_size),
}


def cells_of(name, effect, spread, *, seed=0, repetitions=REPETITIONS):
    random = np.random.default_rng(seed)
    make = CASES[name][3]
    return [
        each for repetition in range(repetitions) for each in make(effect, lambda: random.normal(0, spread), repetition)
    ]


def claim_of(name, *, claimed="more", **changes):
    parameters, than, margin, _ = CASES[name]
    made = cells_of(name, 0, 0, repetitions=1)
    experiments = tuple(dict.fromkeys(each.spec.experiment for each in made))
    values = {
        "id": f"made-up-{name.replace('_', '-')}",
        "statement": "it is so",
        "sources": (Source(paper="C", where="figure 1"),),
        "experiments": experiments,
        "estimator": name,
        "parameters": parameters,
        "claimed": claimed,
        "than": float(than),
        "margin": float(margin),
        "published": None,
        "note": "",
    }
    return Claim(**(values | changes))


def verdict_on(name, cells, **claim):
    found = verdicts.evaluate(Runs(tuple(cells)), claims=[claim_of(name, **claim)])
    assert len(found) == 1
    return found.iloc[0]


def rare(tries):
    """The share of so many tries that may be wrong where 2.5 % are: three standard errors above that."""
    return 0.025 + 3 * np.sqrt(0.025 * 0.975 / tries)
