"""Shortlists of CTranslate2 models: the target pieces that the translation of each source piece may need.

With a shortlist, CTranslate2 computes the scores of these pieces only, which takes less time than those of the whole
vocabulary. They are the likeliest translations by IBM model 1 (Brown et al., 1993, aclanthology.org/J93-2003), learned
from training pairs in seconds.

Legend: K different links of pieces, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nmt.data.batching import Indices
from nmt.data.corpus import Corpus, lines_of
from nmt.files.write import write_file
from nmt.text.lexicon import expected_counts, links
from nmt.text.tokenizer import EOS, N_SPECIAL, PAD, Tokenizer

FILE = "vmap.txt"
"""The name that CTranslate2 expects."""
N_PER_PIECE = 20
"""Number of translations of a source piece."""
N_FREQUENT = 200
"""Number of frequent target pieces that are always included."""
MAX_LINKS = 20_000_000
"""Maximum number of links of a direction; more take too much memory. Fewer pairs are read where sentences are long."""
N_ITERATIONS = 4


def write_shortlist(
    folder: Path, corpora: Iterable[tuple[Corpus, str, str]], tokenizers: tuple[Tokenizer, Tokenizer]
) -> None:
    """Write the shortlist of a CTranslate2 model.

    corpora: the corpus, source and target language of each direction; tokenizers: of the sources and the targets.
    """
    src, tgt = (tokenizer.pieces(range(tokenizer.n_pieces)) for tokenizer in tokenizers)
    translations = {i: set[int]() for i in range(N_SPECIAL, len(src))}
    frequent = set[int]()
    for corpus, *languages in corpora:
        (sources, targets), probabilities, often = _learn(corpus, languages, len(tgt))
        frequent.update(often.tolist())
        order = np.lexsort((-probabilities, sources))
        starts = np.searchsorted(sources[order], np.arange(len(src) + 1))
        for i, found in translations.items():
            found.update(targets[order[starts[i] : starts[i + 1]][:N_PER_PIECE]].tolist())
    ids = {piece: i for i, piece in enumerate(tgt)}
    for i, found in translations.items():  # names are often copied
        found.update({ids[src[i]]} if src[i] in ids else ())
    lines = [("", frequent), *((src[i], found) for i, found in translations.items())]
    text = "".join(f"{piece}\t{' '.join(tgt[i] for i in sorted(found) if i >= N_SPECIAL)}\n" for piece, found in lines)
    write_file(folder / FILE, text.encode())


def _learn(
    corpus: Corpus, languages: Sequence[str], n_pieces: int
) -> tuple[tuple[Indices, Indices], npt.NDArray[np.float64], Indices]:
    """Return the K links of a direction, as source and target pieces, the probability of the target piece given the
    source piece (K,), and the most frequent target pieces."""
    sides = [[lines_of(split, language) for split in corpus.train_splits] for language in languages]
    sizes = [np.concatenate([lines.n_ids() + 1 for lines in side]).astype(np.int64) for side in sides]
    step = max(1, -(-int((sizes[0] * sizes[1]).sum()) // MAX_LINKS))
    (src_ids, n_src), (tgt_ids, n_tgt) = (
        (np.concatenate([each[each != PAD] for each in read]), np.concatenate([(each != PAD).sum(1) for each in read]))
        for read in ([lines.gather(np.arange(0, len(lines), step), EOS) for lines in side] for side in sides)
    )
    tgt_token, src_token = links(n_tgt, n_src)
    linked = src_ids[src_token] * n_pieces + tgt_ids[tgt_token]
    del src_token  # large
    keys, kinds = np.unique(linked, return_inverse=True)
    sources, targets = keys // n_pieces, keys % n_pieces
    counts, totals = expected_counts(kinds, tgt_token, sources, N_ITERATIONS)
    frequencies = np.bincount(tgt_ids, minlength=n_pieces)
    often = np.argsort(-frequencies, kind="stable")[:N_FREQUENT].astype(np.int64)
    return (sources, targets), counts / totals, often
