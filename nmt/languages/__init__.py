"""The languages and scripts of the world, as two tables. `scripts/language_tables.py` writes them."""
