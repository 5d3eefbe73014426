"""Cleaning of training pairs: repairs, and the reasons for which pairs are dropped."""
