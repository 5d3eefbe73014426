"""Measurements and checks of nmt, run from the repository's root: `python -m scripts.FOLDER.NAME`. See README.md."""
