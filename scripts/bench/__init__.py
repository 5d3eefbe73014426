"""Toolkits side by side: the same text, the same model, one process at a time.

    task.py      the task that all are given: model, batches, text
    text.py      the corpus in pieces, made once
    peer.py      what is known of a toolkit
    peers/       a module for each toolkit: how to install it, its configuration, where it learns from a batch
    install.py   an environment for each, made on first use
    once.py      what is made on first use and kept
    probe.py     runs inside a toolkit's process and counts what it learns from
    windows.py   from optimizer steps to rates
    table.py     from rates to the table and the ratios

To add a toolkit: a module in `peers/` with a `Peer`, and its name in `peers/__init__.py`. `peer.py` says what it
needs; `peers/eole.py` is a pattern.
"""
