"""Text as strings: the tokenizer, lines of files, sentence splitting and glossaries."""
