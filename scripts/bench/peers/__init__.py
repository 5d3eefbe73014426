"""The toolkits, in the order in which they are measured."""

from __future__ import annotations

from scripts.bench.peer import Peer
from scripts.bench.peers import ctranslate2, eole, hf, marian, nmt

PEERS: dict[str, Peer] = {
    peer.name: peer for peer in (*nmt.ARMS, *nmt.ENGINES, *ctranslate2.ARMS, *eole.ARMS, *hf.ARMS, marian.PEER)
}
