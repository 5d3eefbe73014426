"""Recipes of several steps: knowledge distillation, back-translation, bidirectional pre-training."""
