"""Run directories: checkpoints, documents, weights, and the list of runs. Exported folders, too."""
