"""Preparation of the training text in stages of tasks that any engine can run, with bounded memory.

read       files that are not plain aligned text become parts of line files
clean      each part is cleaned; hashes of its pairs are written for the next stage
group      of similar pairs in all parts, such as duplicates, all but the best are found by sorting the hashes
judge      filters that learn from a sample of what is left find more pairs to drop
settle     development and test sets are split off; what is left of each part is the training text, with
           `repair: [letters]` in the most frequent forms of its letters
mono       monolingual text, if there is any, is cleaned, with one task per language
vocabulary the vocabulary is learned
encode     each part becomes ids, and so does monolingual text (`mono-encode`)
join       the parts become the files of the data directory: one for each language, or shards

A stage begins when the one before it is complete. Parts are numbered in the order of the training text.
"""
