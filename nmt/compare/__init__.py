"""Comparison of systems: `nmt compare`."""
