"""Run directories and exported folders: checkpoints, metadata, weights, and the list of runs."""
