"""Translation of text: lines are split into sentences, searched in batches, and joined from the hypotheses."""
