"""Tasks that run once, in one or several processes, and whose results survive interruptions."""
