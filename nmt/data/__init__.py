"""From text to batches: sources, cleaning, the prepared corpus, updates."""
