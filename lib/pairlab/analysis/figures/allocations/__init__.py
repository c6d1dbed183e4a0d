"""Figures of paper M's allocations: a panel for each, a place for each driver."""
