"""nmt: train a machine-translation Transformer from raw parallel text and measure it honestly."""

__version__ = "0.1.0"
