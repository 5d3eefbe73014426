"""Search for the best translation with any `StepModel`."""
