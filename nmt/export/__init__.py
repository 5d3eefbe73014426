"""Export a run as one self-contained directory that translates."""
