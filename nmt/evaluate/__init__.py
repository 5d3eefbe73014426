"""Metrics, and scores of files and of runs."""
