"""Recipes of several steps: adapting, distillation, back-translation, bidirectional training, sweeps, reranking."""
