"""The entry point of the command `nmt` and of `python -m nmt`."""

import os
import signal

from nmt.process import end_at_once


def main() -> None:
    """Run the command line. Always raises SystemExit with the exit status.

    Until a command begins (see `user_errors`), for example during imports, Ctrl-C ends the process at once.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler and "RANK" not in os.environ:
        signal.signal(signal.SIGINT, end_at_once)
    from nmt.cli import main as run

    run()


if __name__ == "__main__":
    main()
