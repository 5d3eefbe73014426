"""The Transformer. It takes tensors and layouts and knows nothing of files or batches."""
