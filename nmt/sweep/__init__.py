"""Many trainings as one command: every combination of a grid of settings, each in a process and a run of its own."""
