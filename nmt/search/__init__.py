"""Search for the best translation over anything with a `StepModel`'s two methods."""
