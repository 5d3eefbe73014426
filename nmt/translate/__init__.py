"""Translation of lines, files and documents with trained models; `loading.Translator` reads a run.

The core translates lines and knows no runs: in `translator.LineTranslator`, a `Line` becomes `Sentence`s (`segment`),
these are searched (`search`), and their `Hypothesis`es are joined into the line's `Translation`s (`segment`); the types
are in `types`. `files` and `documents` read and write.
"""
