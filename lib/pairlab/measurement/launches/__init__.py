"""Measuring launches."""
