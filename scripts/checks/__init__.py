"""Checks that take too long for the test suite, and a script that writes its golden files."""
