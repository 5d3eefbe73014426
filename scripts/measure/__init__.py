"""Measurements of single aspects; the docstring of each module says what it measures and how to run it."""
