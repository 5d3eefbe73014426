"""The toolkits, in the order in which they are measured."""

from __future__ import annotations

from bench.peer import Peer
from bench.peers import eole, fairseq, hf, joeynmt, nmt, onmt, sockeye

PEERS: dict[str, Peer] = {
    peer.name: peer for peer in (*nmt.ARMS, eole.PEER, onmt.PEER, fairseq.PEER, hf.PEER, sockeye.PEER, joeynmt.PEER)
}
