"""Tests of differences between systems: over lines, and over lines and seeds together."""
