"""Setup of a run before the first update: checks, model, initial weights and resuming."""
