"""Classification: the labels of texts, and how well they are predicted."""
