"""The seeded German-English grammar behind ``data/sample``."""
