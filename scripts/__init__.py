"""Measurements and checks of nmt. README.md says how to run them."""
