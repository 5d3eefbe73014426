"""The container image, the compose file and the systemd unit: linted, consistent, and closed by default."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from nmt.cli import app
from places import ROOT

DOCKERFILE, COMPOSE, UNIT = ROOT / "Dockerfile", ROOT / "compose.yaml", ROOT / "docs" / "nmt-serve.service"
needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")


def instructions(name: str) -> list[str]:
    """Return the arguments of every occurrence of an instruction in the Dockerfile."""
    text = DOCKERFILE.read_text(encoding="utf-8").replace("\\\n", " ")
    return re.findall(rf"^{name} +(.*)$", text, re.M)


def check_arguments(words: list[str]) -> dict[str, Any]:
    """Parse the arguments of `nmt` without running the command, and return its options."""
    name, *rest = words
    commands = get_command(app)
    command = commands.commands[name]  # type: ignore[attr-defined]
    return dict(command.make_context(name, rest, **commands.context_settings).params)


def test_dockerfile_passes_hadolint() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, DOCKERFILE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_docker_context_contains_only_copied_files() -> None:
    copied = {
        source for words in instructions("COPY") if not words.startswith("--from") for source in words.split()[:-1]
    }
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert ignore[1] == "*"
    assert {line.removeprefix("!") for line in ignore if line.startswith("!")} == copied
    assert all((ROOT / source).exists() for source in copied)
    assert {"nmt", "configs", "data/sample", "pyproject.toml", "setup.py"} <= copied


def test_dockerfile_uses_existing_extras_and_unprivileged_user() -> None:
    text = DOCKERFILE.read_text(encoding="utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    used = set(re.findall(r"extras\['([\w-]+)'\]", text))
    assert used == {"serve", "ctranslate2"} and used <= set(extras)
    assert instructions("USER") == ["10001:10001"]
    assert "constraints.txt" in text
    assert instructions("ENTRYPOINT") == ['["nmt"]']
    default = yaml.safe_load(instructions("CMD")[-1])  # JSON is YAML
    assert check_arguments(default)["host"] == "0.0.0.0"
    [port] = instructions("EXPOSE")
    assert check_arguments(default)["port"] == int(port)
    assert f"http://127.0.0.1:{port}/health" in text


def test_compose_service_is_local_and_unprivileged() -> None:
    [(name, service)] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"].items()
    assert name == "nmt"
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert service["read_only"] is True and service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory", "pids"}
    [volume] = service["volumes"]
    assert volume["read_only"] is True
    options = check_arguments(service["command"])
    [model] = options["model"]
    [directory] = instructions("WORKDIR")[1:]
    assert (Path(directory) / model).is_relative_to(volume["target"])
    assert service["ports"] == [f"127.0.0.1:{options['port']}:{options['port']}"]
    assert int(service["stop_grace_period"].removesuffix("s")) > options["grace"]


def unit() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT, encoding="utf-8")
    return parser["Service"]


def test_systemd_service_is_local() -> None:
    service = unit()
    program, *words = shlex.split(service["ExecStart"])
    assert program == "/opt/nmt/bin/nmt" and words.pop() == "$NMT_OPTIONS"
    added = re.search('"NMT_OPTIONS=(.*)"', UNIT.read_text(encoding="utf-8"))
    assert added is not None
    options = check_arguments([*words, *added[1].split()])
    assert options["host"] == "127.0.0.1"
    assert int(service["TimeoutStopSec"]) > options["grace"]


@needs_systemd
def test_systemd_accepts_unit_and_its_confinement(tmp_path: Path) -> None:
    copy = tmp_path / UNIT.name  # systemd looks for the program
    copy.write_text(UNIT.read_text(encoding="utf-8").replace("/opt/nmt/bin/nmt", "/bin/true"), encoding="utf-8")
    verify = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True, check=False)
    assert (verify.returncode, verify.stderr) == (0, "")
    confined = ["systemd-analyze", "security", "--offline=true", "--threshold=15", "--no-pager", copy]
    done = subprocess.run(confined, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-200:]
