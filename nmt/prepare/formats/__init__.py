"""Readers of files with text in both languages, one module per family of formats.

A reader yields the pairs of one file, with the text in the alphabetically first language first, and counts the units
that it skips. Its memory does not grow with the file. It raises DataError, with the file name and the line or unit, if
the file is not in its format.
"""
