"""Pages of a single HTML file: style, charts and escaping."""
