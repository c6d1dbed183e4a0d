"""Data with known truth, clustered as flows are: what the simulations of the tests and of the study draw from."""

import numpy as np
import pandas as pd
from scipy import stats

from pairlab.statistics import permutation
from pairlab.statistics.clusters import Clusters


def clustered(random, repetitions, flows, *, between=0.5, within=1.0, mean=0.0):
    """Values and labels of flows that share their repetition's level: normal with these standard deviations."""
    labels = np.repeat(np.arange(repetitions), flows)
    values = mean + random.normal(0, between, repetitions)[labels] + random.normal(0, within, labels.size)
    return values, labels


def lognormal(random, repetitions, flows, *, between=0.1, within=0.4, level=0.0):
    """Values and labels of flows whose logarithms are clustered."""
    values, labels = clustered(random, repetitions, flows, between=between, within=within, mean=level)
    return np.exp(values), labels


def two_groups(random, repetitions, flows, *, shift=0.0, drift=0.0, between=0.5):
    """The values, repetitions and groups of two groups; `drift` is common to both groups of a repetition."""
    common, values, labels, groups = random.normal(0, drift, repetitions), [], [], []
    for name, level in (("a", 0.0), ("b", shift)):
        part, label = clustered(random, repetitions, flows, between=between, mean=level)
        values.append(part + common[label])
        labels.append(label)
        groups.append(np.full(part.size, name))
    return np.concatenate(values), np.concatenate(labels), np.concatenate(groups)


def permuted(values, repetition, group, **how):
    """permutation.of_clusters of two groups, from a value per flow with its labels."""
    values, repetition, group = map(np.asarray, (values, repetition, group))
    first, second = (Clusters.of(values[group == name], repetition[group == name]) for name in np.unique(group))
    return permutation.of_clusters(first, second, **{"swapped": False} | how)


def by_repetition(values, repetition, group):
    """One row per repetition of each group: its mean."""
    frame = pd.DataFrame({"value": values, "repetition": repetition, "group": group})
    return frame.groupby(["group", "repetition"], as_index=False)["value"].mean()


def by_driver(**rates):
    """One row per repetition of each driver, with its `rate`."""
    rows = [(name, repetition, value) for name, values in rates.items() for repetition, value in enumerate(values)]
    return pd.DataFrame(rows, columns=["driver", "repetition", "rate"])


def several_groups(random, groups, repetitions, flows):
    """One row per repetition of groups that do not differ: means of clustered flows."""
    values, labels = clustered(random, groups * repetitions, flows)
    return by_repetition(values, labels, labels // repetitions)


def correlated(random, repetitions, clients, *, r=-0.5, spread=0.3, drift=1.0):
    """x, y and labels: within repetition k, correlation tanh(atanh(r) + spread * normal); both drift together."""
    own = np.tanh(np.arctanh(r) + random.normal(0, spread, repetitions))[:, None]
    x = random.normal(size=(repetitions, clients))
    y = own * x + np.sqrt(1 - own**2) * random.normal(size=(repetitions, clients))
    common = drift * random.normal(size=(repetitions, 1))
    return (x + common).ravel(), (y + common).ravel(), np.repeat(np.arange(repetitions), clients)


def holds(estimate, truth):
    return estimate.low <= truth <= estimate.high


def likely(hits, n, share, chance=1e-3):
    """Whether `hits` of n is what a procedure yields that hits in `share` of cases, but for this chance."""
    return stats.binomtest(int(hits), n, share).pvalue >= chance
