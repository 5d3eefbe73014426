"""The toolkits, in the order in which they are measured."""

from __future__ import annotations

from scripts.bench.peer import Peer
from scripts.bench.peers import ctranslate2, eole, fairseq, hf, joeynmt, nmt, onmt, sockeye

PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        *nmt.ARMS, *nmt.ENGINES, *ctranslate2.ARMS,
        eole.PEER, eole.BF16, onmt.PEER, fairseq.PEER, hf.PEER, hf.BF16, sockeye.PEER, joeynmt.PEER,
    )
}  # fmt: skip
