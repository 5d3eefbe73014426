"""Translations by a language model behind an API for chat completions.

`protocol` sends requests, `prompt` writes them and reads the answers to several lines, `checks` repairs or rejects an
answer, `answers` keeps all of them in a file, and `teacher` asks for the lines of a text until all are answered.
"""
