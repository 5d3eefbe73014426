"""Figures: learning curves and attention."""
