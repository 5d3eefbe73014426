"""Everything before the first update: checks, model, initial weights, resuming."""
