"""Recipes of several steps: distillation, back-translation, both directions, sweeps, reranking."""
