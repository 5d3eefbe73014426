"""Compare the behaviour of two checkouts: the same commands, calls and requests, and every byte that they write.

    python -m scripts.checks.replay OLD NEW [--quick] [--only PATTERN] [--keep FOLDER]

`tables.py` reads the cases, one row of a table for each step; `inputs.py` writes the files that they read; `play.py`
runs them with one checkout, in forked children; `compare.py` compares what they wrote, apart from what may differ, such
as times. `expected.tsv` lists differences that are intended.
"""
