"""Which network for what, from stored runs."""
