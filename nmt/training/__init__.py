"""Training: the loop, the loss, the optimizer, validation and the log."""
