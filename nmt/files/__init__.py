"""Files on disk: atomic writes and locks, and reading what a stranger may have put there."""
