"""One-off measurements: each module's docstring says what it measures and how to run it."""
