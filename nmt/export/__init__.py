"""Exporting a run as one directory that is the translator."""
