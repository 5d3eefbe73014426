"""The plan of a training run, and its directory, in which only one process trains. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from nmt.config import Config
from nmt.config.load import adopting, load_saved_config
from nmt.errors import CheckpointError, DataError
from nmt.files.write import Lock, refuse_links, remove
from nmt.layout import DataDir, RunDir
from nmt.runs.info import launch, read_info


@dataclass(frozen=True)
class TrainingPlan:
    """A training run that can start: what `nmt train` resolves and checks before PyTorch is imported."""

    config: Config
    data: DataDir
    run: RunDir
    resume: bool
    """Whether the run exists and continues from its last checkpoint."""
    start: Mapping[str | None, Path]
    """The runs with whose weights the run starts, by the stack that they initialize; None stands for all stacks."""
    tags: Sequence[str]
    """The tags of the resumed run, or of the runs in `start`, which keep their ids."""

    @classmethod
    def of(
        cls, config: Config, data: Path | None = None, run: Path | None = None, resume: bool = False
    ) -> TrainingPlan:
        """Plan to train in the directory `run`, or to resume the run there.

        data, run: by default the directories of the config; a resumed run keeps its data directory if that still
        exists. A run is also resumed if `torchrun` has restarted the processes that started it.
        A new run adopts settings of the model, the tokenizer and the search from the run in `training.init_from`.
        Raises ConfigError, CheckpointError or DataError.
        """
        source = config.training.init_from
        directory = RunDir(run or config.run_directory)
        if isinstance(source, str) and not resume:
            config = adopting(config, Path(source), "training.init_from")
        start: dict[str | None, Path] = {}
        if isinstance(source, dict):
            start.update({stack: Path(path) for stack, path in source.items()})
        elif source is not None:
            start[None] = Path(source)
        if resume or _is_restarted(directory):
            check_exists(directory)
            data_dir = DataDir(data or _recorded_data(directory, config))
            return cls(config, data_dir, directory, True, start, _known_tags([directory.path]))
        check_vacant(directory)
        data_dir = DataDir(data or config.data.directory)
        return cls(config, data_dir, directory, False, start, _known_tags(start.values()))


def _known_tags(runs: Iterable[Path]) -> list[str]:
    """Return the tags of runs."""
    from nmt.text.vocabularies import read_tags  # with SentencePiece and NumPy, when the checks above have passed

    return [*dict.fromkeys(tag for run in runs for tag in read_tags(RunDir(run).tokenizer.tags))]


def _is_restarted(run: RunDir) -> bool:
    """Return whether the run was started by earlier processes of the same torchrun launch."""
    return launch() is not None and run.info.is_file() and read_info(run).launch == launch()


def _recorded_data(run: RunDir, config: Config) -> Path:
    """Return the data directory of a resumed run, or the one that its config names if the former no longer exists."""
    recorded = Path(read_info(run).data_dir)
    configured = config.data.directory
    if recorded.is_dir():
        return recorded
    if configured.is_dir():
        return configured
    raise DataError(f"{recorded}: the data directory of {run.path} does not exist; give its new path with --data")


def check_exists(run: RunDir) -> None:
    """Raise CheckpointError unless a directory contains a run that was trained."""
    if run.info.exists() and run.config.exists():
        if read_info(run).imported is None:
            load_saved_config(run.config)  # raises for an older version
            return
        raise CheckpointError(
            f"{run.path}: was imported and has no optimizer state; start another run with --init-from {run.path}"
        )
    if _is_vacant(run):
        raise CheckpointError(f"{run.path}: no run to resume; leave out --resume to start a new one")
    missing = (run.config if run.info.exists() else run.info).name
    raise CheckpointError(f"{run.path}: {missing} is missing, so this is not a run, or it is damaged; check --run")


@contextmanager
def locked(run: RunDir, resume: bool, on_rank0: Callable[[Callable[[], None]], None]) -> Iterator[None]:
    """Hold the lock of the run directory, so that no other process trains there.

    Raises CheckpointError if it is locked, or if a new directory is not empty any more. A new directory is removed
    again if no run was started in it.
    """
    created = [path for path in (run.path, *run.path.parents) if not path.exists()]

    def take() -> None:
        refuse_links(_written_in_place(run))
        run.path.mkdir(parents=True, exist_ok=True)
        held.enter_context(Lock(run.lock, "trains"))
        if not resume:
            check_vacant(run)  # another process may have been faster
            held.callback(_remove_leftovers, run, created)

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
    if not run.path.is_dir():
        return not run.path.exists()
    present = {*run.path.iterdir()} - {run.adapt}
    known = {*_small_files(run), run.tokenizer.path, *_folders(run)}
    if present and not (run.lock.is_file() and present <= known):
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
