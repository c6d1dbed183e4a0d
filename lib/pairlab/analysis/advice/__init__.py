"""Advice on the choice of a network, from stored runs.

question    the question, and the properties of a network without measuring
usable      the runs that can answer it, and why others cannot
answer      a cell for each network and quantity, and the sweep's grid for empty cells
ranking     the better one of two networks, and shared ranks
shown       the answer in sentences, tables, HTML and JSON
"""

#: The kinds of traffic.
TRAFFIC = ("requests", "bulk")
#: The criteria that can decide. `cpu` is one of two quantities, by the traffic.
FIRST = ("p99", "throughput", "cpu", "launch")
#: Differences below this many percent are ties.
MARGIN_PERCENT = 5.0
