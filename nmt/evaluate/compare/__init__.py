"""Comparison of systems: `nmt compare`, and its page."""
