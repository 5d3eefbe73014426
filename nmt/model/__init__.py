"""The Transformer, its masks, devices and precisions. It knows nothing of files or batches."""
