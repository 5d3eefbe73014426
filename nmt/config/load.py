"""Reading and writing of configurations, with `--set` overrides. All problems are reported at once.

A config name is looked up as a path, then as `configs/NAME`, then among the configs shipped with nmt.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ValidationError

from nmt.config import Config
from nmt.config.messages import problems_in
from nmt.config.modes import leave_out, unread
from nmt.config.old import SINCE_0_2_0, without_old
from nmt.console import columns, printable, say_once
from nmt.data.sources import KINDS
from nmt.errors import ConfigError
from nmt.files.read import CONFIG_BYTES, read_regular, shipped
from nmt.files.yaml12 import dump_yaml, parse_yaml, shown
from nmt.layout import RunDir
from nmt.prepare.cleaning.settings import CleanConfig
from nmt.search.settings import SearchConfig
from nmt.spelling import did_you_mean, misspelt
from nmt.training.facts import OBJECTIVE_SECTIONS
from nmt.training.settings import Stage

Override: TypeAlias = str | tuple[str, object]
"""A change of a setting: `section.key=value` in YAML, or the dotted key and the value."""


def key_of(override: Override) -> str:
    """Return the dotted key of the setting that is changed."""
    return override[0] if isinstance(override, tuple) else override.partition("=")[0]


def load_config(name: str | Path = "base.yaml", *layers: Sequence[Override]) -> Config:
    """Load the config `name`, apply the overrides of each layer and check it; see `overridden`.

    Raises ConfigError with one line per problem, which names the file or override, the dotted key, the value found and
    the nearest valid key.
    """
    where, tree = read_tree(name)
    run = RunDir(Path(where).parent)
    config = overridden(tree, where, *layers, is_saved=run.config == Path(where) and run.info.is_file())
    if not config.data.train:
        raise ConfigError(_located("data.train: must have at least one entry, found []", where, [*chain(*layers)]))
    return config


def load_saved_config(path: Path) -> Config:
    """Load the config of a run, which 0.2.0 or a later version wrote.

    A note names each setting that has been removed since. Raises ConfigError, also for a config of an older version.
    """
    return check_config(read_tree(path)[1], str(path), is_saved=True)


def changed_config(config: Config, overrides: Sequence[Override]) -> Config:
    """Return `config` with `overrides` applied. Raises ConfigError."""
    return overridden(config.model_dump(), "config", overrides, is_saved=True)


def changed_search(
    config: Config,
    options: Mapping[str, object],
    overrides: Sequence[Override] = (),
    where: str = "command line",
    is_checked: bool = True,
) -> SearchConfig:
    """Return the search settings of a run with changes, in which `split: auto` stands for the value of the run.

    options: values by name, which precede `overrides` of the same settings. where, is_checked: see
    `overridden`. Raises ConfigError.
    """
    tree = config.model_dump()
    tree["search"] |= options
    others = [override for override in overrides if key_of(override).removeprefix("search.") not in options]
    kept = [f"search.{name}" for name in options]
    search = overridden(tree, where, others, is_saved=True, is_checked=is_checked, kept=kept).search
    return search if search.split != "auto" else search.model_copy(update={"split": config.search.split})


def adopting(settings: Config, start: Path, option: str) -> Config:
    """Return a configuration that takes the settings of model, tokenizer and search that are not given from a run.

    From `search.split`, only `never` is adopted, as the others depend on the training text. `option` names the run, for
    messages. A run with another kind of model, or a directory that is no run, changes nothing. Raises ConfigError.
    """
    config = RunDir(start).config
    if not config.is_file():
        return settings
    theirs = load_saved_config(config)
    if settings.model.stacks != theirs.model.stacks:
        return settings
    computed = {"split"} if theirs.search.split != "never" else set()
    changes = {}
    for name in ("model", "tokenizer", "search"):
        ours = getattr(settings, name)
        given = getattr(theirs, name)
        adopted = {key: value for key, value in given if key not in ours.model_fields_set | computed}
        changes[name] = ours.model_copy(update=adopted)
    tree = settings.model_copy(update=changes).model_dump()
    note(leave_out(tree), option)
    return check_config(tree, option)


def read_tree(name: str | Path) -> tuple[str, dict[str, object]]:
    """Return the path of a config and its content as plain values. Raises ConfigError."""
    where, text = read_config(name)
    tree = parse_yaml(text, where)
    if not isinstance(tree, dict):
        kind = "a list" if isinstance(tree, list) else shown(tree)
        raise ConfigError(f"{where}: a config must be a mapping of sections, found {kind}")
    return where, tree


def overridden(
    tree: dict[str, object],
    where: str,
    *layers: Sequence[Override],
    is_saved: bool = False,
    is_checked: bool = True,
    kept: Collection[str] = (),
) -> Config:
    """Apply layers of overrides to a tree of settings in place, and check it.

    A setting that has no effect (modes.tsv) is refused. One that had an effect before a layer has changed its mode is
    left out with a note. is_saved: whether nmt has written the tree, which then contains all settings: those without
    effect are left out, except `kept` ones. is_checked: whether settings without effect are refused. Raises
    ConfigError.
    """
    problems = []
    notes = []
    overrides = [*chain(*layers)]
    given = {*map(key_of, overrides)}
    if is_saved:
        leave_out(tree, kept)
    for layer in layers:
        unread_before = [setting.key for setting in unread(tree)]
        changed = [*map(key_of, layer)]
        for override in layer:
            try:
                _apply(tree, override)
            except ConfigError as error:
                problems += error.problems
        notes += leave_out(tree, unread_before + changed)
    if not is_checked:
        leave_out(tree)
    for setting in unread(tree):  # the section refuses those that are not the default
        if setting.key in given and setting.is_default and not setting.is_off:
            problems.append(f"--set {setting.key}: {setting.reason}")
    try:
        config = check_config(tree, where, overrides)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(*[printable(problem) for problem in problems])
    note(notes, "" if is_saved else where)
    return config


def note(notes: Sequence[str], where: str) -> None:
    """Print notes on one line, unless they have been printed."""
    if notes:
        say_once(": ".join(filter(None, ("note", where, "; ".join(notes)))))


def _apply(tree: dict[str, object], override: Override) -> None:
    """Apply an override to a tree of settings in place."""
    if isinstance(override, tuple):
        key, value = override
    else:
        key, equals, text = override.partition("=")
        if not equals or not all(key.split(".")):
            raise ConfigError(f"--set {override}: write it as section.key=value")
        value = parse_yaml(text, f"--set {override}")
    *parents, last = key.split(".")
    node: Any = tree
    try:
        for parent in parents:
            node = node[_index(parent)] if isinstance(node, list) else node.setdefault(parent, {})
        if isinstance(node, list):
            node[_index(last)] = value
        else:
            node[last] = value
    except (ValueError, IndexError, TypeError, AttributeError) as error:
        given = override if isinstance(override, str) else f"{key}={value}"
        raise ConfigError(f"--set {given}: {key} is not a setting") from error


def _index(text: str) -> int:
    """Return the list index in `text`. Raises ValueError for any other text, such as -1."""
    if not re.fullmatch("[0-9]{1,9}", text):
        raise ValueError(text)
    return int(text)


def check_config(
    tree: Mapping[str, object], where: str, overrides: Sequence[Override] = (), is_saved: bool = False
) -> Config:
    """Validate a tree of plain values, and return it as a configuration.

    where: the name of the file, for messages. overrides: the overrides already applied. is_saved: whether the tree is
    the config of a run; see `load_saved_config`.
    Raises ConfigError.
    """
    tree, problems = without_old(tree)
    if is_saved:
        if older := [line for line in problems if not line.startswith(SINCE_0_2_0)]:
            raise ConfigError(
                f"{where}: written before 0.2.0, with {older[0].partition(':')[0]}, and cannot be read any more; use "
                "the version that wrote it, or train again"
            )
        for line in problems:
            note([line], where)
        problems = []
        leave_out(tree)
    try:
        config = Config.model_validate(tree)
    except ValidationError as error:
        problems += problems_in(error)
    if problems:
        raise ConfigError(*[_located(problem, where, overrides) for problem in problems])
    return config


def _located(problem: str, where: str, overrides: Sequence[Override]) -> str:
    """Prefix a problem, which begins with its dotted key, with its origin: `--set` or the file."""
    overridden = any(problem.startswith((f"{key}:", f"{key}.")) for key in map(key_of, overrides))
    return f"--set {problem}" if overridden else f"{where}: {problem}"


def dump_config(config: Config, comments: bool = False) -> str:
    """Return the configuration as YAML that `load_config` reads back.

    comments: whether to add the description of each field.
    """
    tree = config.model_dump(mode="json")
    tree["data"] |= config.data.model_dump(
        mode="json", include={"train", "valid", "test", "mono"}, exclude_defaults=True
    )
    tree["data"].setdefault("test", {})
    tree["data"]["clean"] = config.data.clean.model_dump(mode="json", exclude_none=True)
    return commented(tree, _descriptions(config)) if comments else dump_yaml(tree)


_LISTED = {
    "train": {name: field for kind in KINDS.values() for name, field in kind.model_fields.items()}.items(),
    "clean": CleanConfig.model_fields.items(),
    "stages": Stage.model_fields.items(),
    **{name: section.model_fields.items() for name, section in OBJECTIVE_SECTIONS.items()},
}
"""The fields of settings whose values are sections themselves."""


def _descriptions(config: Config) -> dict[str, list[str]]:
    """Return the comment of each section and key."""
    comments = {}
    for section in type(config).model_fields:
        model = type(getattr(config, section))
        comments[section] = comment(model.__doc__, "# ")
        for key, field in model.model_fields.items():
            comments[f"{section}.{key}"] = comment(field.description, "# ")
            for name, part in _LISTED.get(key, ()):
                comments[f"{section}.{key}"] += comment(f"{name}: {part.description}", "#   ")
    return comments


def commented(tree: Mapping[str, Mapping[str, object]], comments: Mapping[str, Sequence[str]]) -> str:
    """Return settings as YAML, with the comments of sections and keys, such as `training.ema`, before them."""
    lines = []
    for section, values in tree.items():
        lines += [*comments.get(section, ()), f"{section}:"]
        for key, value in values.items():
            block = [*comments.get(f"{section}.{key}", ()), *dump_yaml({key: value}).rstrip("\n").split("\n")]
            lines += [f"  {line}" for line in block]
        lines.append("")
    return "\n".join(lines)


def comment(text: str | None, prefix: str = "# ") -> list[str]:
    """Return the lines of a comment that fit into the terminal, or into 100 columns, indented by up to two."""
    return [
        f"{prefix}{line}"
        for line in textwrap.wrap(" ".join((text or "").split()), columns(sys.stdout) - 6, break_on_hyphens=False)
    ]


def read_config(name: str | Path) -> tuple[str, str]:
    """Return the path and the text of a config. Raises ConfigError."""
    configs = shipped("configs")
    if str(name) and Path(name).is_dir():
        raise ConfigError(f"{name}: is a directory, not a config file")
    for path in (Path(name), Path("configs") / name, configs / name):
        if path.exists() and not path.is_dir():
            try:
                return str(path), read_regular(path, CONFIG_BYTES).decode("utf-8-sig")
            except UnicodeDecodeError as error:
                raise ConfigError(f"{path}: not UTF-8 at byte {error.start + 1}; save it as UTF-8 text") from error
            except OSError as error:
                raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    names = sorted(path.name for path in configs.glob("*.yaml"))
    meant = did_you_mean(misspelt(Path(name).name, names)) or f"; shipped configs: {', '.join(names)}"
    raise ConfigError(f"{name}: no such config here or in configs/{meant}")
