"""Traffic from a distribution: the flows of one client that asks all servers."""
