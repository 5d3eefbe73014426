"""Figures and HTML pages: learning curves, attention, charts as SVG, and the frame of a page."""
