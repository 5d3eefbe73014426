"""Training: the loop, its objective, optimizer, validation and log."""
