"""Checkpoints during training, and which weights are selected for translating."""
