"""Traffic as of a data centre: the sizes of flows, what is asked of a generator, and the flows that it records."""
