"""Launching endpoints on a testbed that is up, with the moment of each phase."""
