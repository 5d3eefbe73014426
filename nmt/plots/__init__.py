"""Pictures: learning curves and attention."""
