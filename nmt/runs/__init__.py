"""What a run directory holds: checkpoints, documents, weights, and a list of runs. Exported folders, too."""
