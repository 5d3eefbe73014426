"""Benchmarks of toolkits with the same text and a model of the same shape, one process at a time.

    task.py             the task of all toolkits: model, batches, text, training time
    text.py             the corpus in pieces, written once
    peer.py             the description of a toolkit
    peers/              a module for each toolkit: how to install it, its configuration, where it learns from a batch,
                        how it translates
    install.py          an environment for each toolkit, made on first use
    once.py             folders that are made on first use and kept
    process.py          a process of a toolkit
    windows.py          rates from the times of steps

Training, `train.py`:

    probe.py            runs inside a toolkit's process and counts its training tokens
    table.py            the table of rates and ratios

Translation, `translate.py`:

    testset.py          the text to translate
    model.py            the models, trained by learn.py in a toolkit's process
    rate.py             runs inside a toolkit's process, translates and counts
    translate_table.py  the tables of rates and ratios

Serving, `serve.py`, which compares with LibreTranslate's server:

    load.py             clients that send a text when the previous one is answered
    server.py           the process of a server on this machine

Preparation, `prepare.py`, which compares with another version of nmt or OpusFilter:

    prepare_arms.py     the text in several sizes, and the ways to prepare it

To add a toolkit: a module in `peers/` with a `Peer`, and its name in `peers/__init__.py`. `peer.py` says what it
needs; `peers/eole.py` is a pattern.
"""
