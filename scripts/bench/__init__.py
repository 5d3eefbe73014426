"""Toolkits side by side: the same text, a model of the same shape, one process at a time.

    task.py             the task that all are given: model, batches, text, how long they train
    text.py             the corpus in pieces, made once
    peer.py             what is known of a toolkit
    peers/              a module for each toolkit: how to install it, its configuration, where it learns from a batch,
                        how it translates
    install.py          an environment for each, made on first use
    once.py             what is made on first use and kept
    process.py          a process of a toolkit's own
    windows.py          from moments to rates

Training, `train.py`:

    probe.py            runs inside a toolkit's process and counts what it learns from
    table.py            from rates to the table and the ratios

Translation, `translate.py`:

    testset.py          the text that is translated
    model.py            the models, trained by learn.py in a toolkit's process
    rate.py             runs inside a toolkit's process, translates and counts
    translate_table.py  from rates to the tables and the ratios

Serving, `serve.py`, which is beside LibreTranslate's server:

    load.py             clients that send texts, each the next when it has an answer
    server.py           a server's process on this machine

Preparation, `prepare.py`, which is another version of nmt or OpusFilter against this one:

    prepare_arms.py     the text in several sizes, and the ways to prepare it

Classification, `classifiers.py`, which is beside a classifier in Keras:

    classifier_text.py   sentences, and the corpora that they are of
    classifier_speed.py  runs our training and measures it
    keras_classifier/    runs in an environment with Keras

To add a toolkit: a module in `peers/` with a `Peer`, and its name in `peers/__init__.py`. `peer.py` says what it
needs; `peers/eole.py` is a pattern.
"""
