"""Recipes of several steps: distillation, back-translation, bidirectional pre-training, sweeps and reranking."""
