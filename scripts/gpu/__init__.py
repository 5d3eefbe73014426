"""Check on one GPU that results agree with a CPU's, and measure the speed; check.py is the entry."""
