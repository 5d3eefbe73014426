"""Checks of the whole program that take too long for the test suite, and the maker of its golden files."""
