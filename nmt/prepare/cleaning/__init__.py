"""Cleaning of training pairs: repairs, and the rules by which pairs are dropped."""
