"""The task that every toolkit is given. What is a number here is the same in all of their configurations."""

from __future__ import annotations

SRC, TGT = "de", "en"
LAYERS = 3
"""Layers of the encoder, and of the decoder."""
WIDTH = 256
HEADS = 4
FFN = 1024
DROPOUT = 0.1
"""In every place where a toolkit has dropout: embeddings, residual, attention weights, activation."""
SMOOTHING = 0.1
VOCABULARY = 8000
"""Pieces of one vocabulary for both languages and the output layer, special ones included."""
MAX_PIECES = 256
BATCH_TOKENS = 4096
"""Target tokens of an optimizer step, each toolkit in its own way of counting."""
BETA1, BETA2 = 0.9, 0.98
WARMUP = 2000
"""Steps until the learning rate is highest."""
PEAK_LR = (WIDTH * WARMUP) ** -0.5
"""The highest learning rate of the schedule of "Attention Is All You Need" with this width and warm-up."""
LOG_EVERY = 100
NEVER = 10_000_000
"""Steps between validations and checkpoints, and until the end: none comes while it is measured."""
SEED = 42
THREADS = 2
