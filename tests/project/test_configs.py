"""The shipped configs, and whether every setting is described and read."""

from __future__ import annotations

import ast

import pytest

from nmt.config import Config
from nmt.config.load import load_config
from nmt.data.sources import KINDS
from nmt.section import Section
from places import ROOT

PACKAGE = ROOT / "nmt"
MODULES = sorted(PACKAGE.rglob("*.py"))
CONFIGS = sorted(path.name for path in (ROOT / "configs").glob("*.yaml"))


@pytest.mark.parametrize("name", CONFIGS)
def test_shipped_configs_load_in_both_directions(name: str) -> None:
    config = load_config(ROOT / "configs" / name)
    if config.data.has_labels:
        return  # text is not predicted from labels
    other = load_config(ROOT / "configs" / name, [f"data.direction={config.data.tgt}-{config.data.src}"])
    assert other.data.directory == config.data.directory
    assert other.run_directory != config.run_directory


def test_shipped_configs_have_expected_settings() -> None:
    assert CONFIGS == [
        "adapt.yaml", "base-best.yaml", "base.yaml", "imdb.yaml", "iwslt14.yaml", "multi30k.yaml", "sample.yaml",
        "student-small.yaml", "student-tiny.yaml",
    ]  # fmt: skip
    configs = {name: load_config(ROOT / "configs" / name) for name in CONFIGS}
    base, best = configs["base.yaml"], configs["base-best.yaml"]
    vaswani = (base.training.optimizer, base.training.schedule, base.training.betas, base.training.eps)
    assert vaswani == ("adam", "noam", [0.9, 0.98], 1e-9)
    assert (best.data, best.tokenizer) == (base.data, base.tokenizer)  # one data directory serves both
    for name in ("base-best.yaml", "iwslt14.yaml", "multi30k.yaml"):  # what won is what one gets
        strong = configs[name].training
        assert strong.consistency == "simcut" and strong.consistency_weight > 0 and strong.ema > 0
    assert len({config.data.directory for config in configs.values()}) == len(CONFIGS) - 1
    assert len({config.run_directory for config in configs.values()}) == len(CONFIGS)


def sections() -> list[type[Section]]:
    found: list[type[Section]] = [*KINDS.values()]
    for field in Config.model_fields.values():
        assert isinstance(field.annotation, type)
        found.append(field.annotation)
    return found


def attributes_read(tree: ast.AST) -> set[str]:
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}


def test_every_setting_is_read() -> None:
    config_files = sorted((PACKAGE / "config").glob("*.py"))
    config_tree = ast.Module([node for path in config_files for node in ast.parse(path.read_text()).body], [])
    read: set[str] = set()
    for path in MODULES:
        if path not in config_files:
            read |= attributes_read(ast.parse(path.read_text(encoding="utf-8")))
    # a field may also be read through a method or property of the configuration that is itself read
    properties = {
        node.name: attributes_read(node)
        for node in ast.walk(config_tree)
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }
    for name in list(properties) * 2:
        if name in read:
            read |= properties[name]
    unread = [f"{part.__name__}.{name}" for part in sections() for name in part.model_fields if name not in read]
    assert unread == []
