"""The main function of a worker process on this machine."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import threading
import traceback
from multiprocessing.connection import Connection

from nmt.process import set_environment, set_up_streams
from nmt.tasks.processes import Outcome, attempt


def main(descriptor: int) -> None:
    """Do the tasks that come from the driver until it ends, however it does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the driver ends this one
    set_environment()
    set_up_streams()  # and freed memory is returned: a worker is idle between stages
    connection = Connection(descriptor)
    requests = queue.SimpleQueue[bytes]()
    threading.Thread(target=_receive, args=(connection, requests), daemon=True).start()
    while True:
        try:
            work, task = pickle.loads(requests.get())
        except Exception:  # a module that cannot be imported
            outcome = Outcome(error=traceback.format_exc())
        else:
            outcome = attempt(work, task)
        connection.send(outcome)


def _receive(connection: Connection, requests: queue.SimpleQueue[bytes]) -> None:
    """Read requests; end the process when the driver has ended, even in the middle of a task."""
    try:
        while True:
            requests.put(connection.recv_bytes())
    except (EOFError, OSError):
        os._exit(1)
