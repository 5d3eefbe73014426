"""Text as strings: tokenizer, lines of files, sentence splitting, glossaries."""
