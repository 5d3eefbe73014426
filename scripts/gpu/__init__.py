"""Checks of the results and the speed of one GPU; check.py runs them."""
