"""Train every combination of a grid of settings, each in a process and a run directory of its own."""
