"""The lock of a run directory, in which only one process trains at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from nmt.errors import CheckpointError
from nmt.files.write import Lock, lock_holder, locked_error, refuse_links, remove
from nmt.layout import RunDir


@contextmanager
def locked(run: RunDir, resume: bool, on_rank0: Callable[[Callable[[], None]], None]) -> Iterator[None]:
    """Hold the lock of an existing run directory (`resume`) or of a new one, so that no other process trains there.

    Raises CheckpointError if there is no run to resume, if a new directory is not empty, or if it is locked. A new
    directory is removed again if no run was started in it.
    """
    created = [path for path in (run.path, *run.path.parents) if not path.exists()]

    def take() -> None:
        refuse_links(_written_in_place(run))
        if resume and not run.info.exists() and _is_vacant(run):
            raise CheckpointError(f"{run.path}: no run to resume; leave out --resume to start a new one")
        if resume and not run.info.exists():
            raise CheckpointError(
                f"{run.path}: run.json is missing, so this is not a run, or it is damaged; check --run"
            )
        if not resume:
            if lock_holder(run.lock) is not None:
                raise locked_error(run.lock, "trains")
            check_vacant(run)
            run.path.mkdir(parents=True, exist_ok=True)
        held.enter_context(Lock(run.lock, "trains"))
        if not resume:
            held.callback(_remove_leftovers, run, created)
            check_vacant(run)  # another process may have been faster

    with ExitStack() as held:
        on_rank0(take)
        yield


def check_vacant(run: RunDir) -> None:
    """Raise CheckpointError unless a directory is empty or was left by a process that died before it wrote run.json."""
    refuse_links(_written_in_place(run))
    if run.path.resolve() == Path.cwd():
        raise CheckpointError(
            f"{run.path}: is the working directory; choose a separate directory for the run with --run DIR"
        )
    if _is_vacant(run):
        return
    if run.info.exists():
        raise CheckpointError(f"{run.path}: exists already; continue it with --resume, or start another with --run DIR")
    raise CheckpointError(f"{run.path}: exists already, but is not a run directory; choose another one with --run")


def _is_vacant(run: RunDir) -> bool:
    """Return whether the directory has no files except those that are written before run.json."""
    if not run.path.exists() or (run.path.is_dir() and not any(run.path.iterdir())):
        return True
    known = {*_small_files(run), run.tokenizer.path, *_folders(run)}
    if not run.lock.is_file() or not set(run.path.iterdir()) <= known:
        return False
    return not any(path.is_dir() and any(path.iterdir()) for path in _folders(run))


def _small_files(run: RunDir) -> list[Path]:
    parts = [path.with_name(path.name + ".part") for path in (run.config, run.info)]
    return [run.lock, run.config, *parts]


def _written_in_place(run: RunDir) -> list[Path]:
    """Return the paths that must not be symbolic links: files that are changed in place, and directories for new
    files."""
    saved = [path for path in run.checkpoints.glob("step-*") if path.suffix != ".part"]
    folders = [run.tokenizer.path, *_folders(run), run.tensorboard, run.trace.parent, run.average.path]
    return [run.lock, run.log, *folders, *saved]


def _folders(run: RunDir) -> list[Path]:
    return [run.checkpoints, run.dev]  # empty until there is a run


def _remove_leftovers(run: RunDir, created: Sequence[Path]) -> None:
    """Remove the files of a run that has neither run.json nor a log, and the directories created for it."""
    if run.info.exists() or run.log.exists():
        return
    for path in (*_small_files(run), run.tokenizer.path):
        remove(path)
    for path in (*_folders(run), *created):
        with suppress(OSError):  # missing, or something else was put into it
            path.rmdir()
