"""Readers of files that hold both languages, one module per family of formats.

A reader yields the pairs of one file, text in the alphabetically first language first, and counts the units that are
no pair. It reads as it goes: the memory does not grow with the file. Raises DataError with the file's name and the line
or unit where it is not what its format says.
"""
