"""Modifiers of training pairs: pure functions of a pair of lines and random numbers."""
