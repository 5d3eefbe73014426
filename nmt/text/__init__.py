"""Text before and after the search: strings and streams, no tensors."""
