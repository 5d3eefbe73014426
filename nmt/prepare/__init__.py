"""`nmt prepare`: sources, cleaning, tokenizer training, and writing the data directory."""
