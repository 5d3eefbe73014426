"""How processes find each other, also those that `torchrun` starts again after some have died.

It keeps one store of names and values for all of them, the dead included: whoever reads where to find another may find
where one was that is gone. So they first agree on a name that only the living know, and write under that.
"""

from __future__ import annotations

import time
from uuid import uuid4

from torch.distributed.distributed_c10d import PrefixStore, Store

SECONDS_BETWEEN_LOOKS = 0.02


def meet(store: Store, rank: int, size: int) -> Store:
    """The part of `store` in which the living `size` processes are among themselves."""
    own = uuid4().hex
    if rank == 0:
        store.set("nmt/name", own)
        for other in range(1, size):
            answer = store.get(f"nmt/{own}/{other}").decode()  # waits for it
            store.set(f"nmt/{own}/{answer}", "heard")
        return PrefixStore(own, store)
    name = ""
    while not name or not store.check([f"nmt/{name}/{own}"]):  # a dead process 0 hears nothing
        if (newest := store.get("nmt/name").decode()) != name:
            name = newest
            store.set(f"nmt/{name}/{rank}", own)
        time.sleep(SECONDS_BETWEEN_LOOKS)
    return PrefixStore(name, store)
