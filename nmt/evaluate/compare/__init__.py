"""Comparison of systems: `nmt compare` and its HTML page."""
