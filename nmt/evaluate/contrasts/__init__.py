"""Contrasts of challenge sets: a true translation, and one that is wrong in a known way, made from any parallel text.

`contrasts.py` makes them; `language.py` knows changes of any language, and `german.py` and the like those of one.
"""
