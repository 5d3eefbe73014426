"""The Transformer, its masks, devices and precisions. It does not depend on files or batches."""
