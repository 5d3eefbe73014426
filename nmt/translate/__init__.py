"""Translate lines: from text to sentences to batches, and from hypotheses back to text."""
