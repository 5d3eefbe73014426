"""Files on disk: atomic writes, locks, and reading untrusted files safely."""
