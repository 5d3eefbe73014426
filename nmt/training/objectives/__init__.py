"""The training objectives, one in each module; see `nmt.training.objective`."""
