"""Everything before the first update: checks, model, weights to begin with, resuming."""
