"""The container image, the compose file and the systemd unit: linted, consistent, and closed by default."""

from __future__ import annotations

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


def instructions(name: str) -> list[str]:
    """Return the arguments of every occurrence of an instruction in the Dockerfile."""
    text = DOCKERFILE.read_text(encoding="utf-8").replace("\\\n", " ")
    return re.findall(rf"^{name} +(.*)$", text, re.M)


def check_arguments(words: list[str]) -> dict[str, Any]:
    """Parse the arguments of `nmt` without running the command, and return its options."""
    commands = get_command(app)
    command = commands.commands[words[0]]  # type: ignore[attr-defined]
    return dict(command.make_context(words[0], words[1:], **commands.context_settings).params)


def test_dockerfile_passes_hadolint() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, DOCKERFILE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_docker_context_contains_only_copied_files() -> None:
    copied = {
        source for words in instructions("COPY") if not words.startswith("--from") for source in words.split()[:-1]
    }
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {line.removeprefix("!") for line in ignore if line.startswith("!")} == copied and ignore[1] == "*"
    assert all((ROOT / source).exists() for source in copied)
    assert {"nmt", "configs", "data/sample", "pyproject.toml", "setup.py"} <= copied


def test_dockerfile_uses_existing_extras_and_unprivileged_user() -> None:
    text = DOCKERFILE.read_text(encoding="utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(re.findall(r"extras\['([\w-]+)'\]", text)) == {"serve", "ctranslate2"} <= set(extras)
    assert (instructions("USER"), instructions("ENTRYPOINT")) == (["10001:10001"], ['["nmt"]'])
    [port] = instructions("EXPOSE")
    options = check_arguments(yaml.safe_load(instructions("CMD")[-1]))  # JSON is YAML
    assert (options["host"], options["port"]) == ("0.0.0.0", int(port))
    assert f"http://127.0.0.1:{port}/health" in text and "constraints.txt" in text


def test_compose_service_is_local_and_unprivileged() -> None:
    [(name, service)] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"].items()
    [volume], options = service["volumes"], check_arguments(service["command"])
    assert name == "nmt" and service["read_only"] is volume["read_only"] is True
    assert (service["cap_drop"], service["security_opt"]) == (["ALL"], ["no-new-privileges:true"])
    assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory", "pids"}
    [model] = options["model"]
    [directory] = instructions("WORKDIR")[1:]
    assert (Path(directory) / model).is_relative_to(volume["target"])
    assert service["ports"] == [f"127.0.0.1:{options['port']}:{options['port']}"]
    assert int(service["stop_grace_period"].removesuffix("s")) > options["grace"]


def test_systemd_service_is_local() -> None:
    text = UNIT.read_text(encoding="utf-8")
    [started], [added], [seconds] = (
        re.findall(form, text, re.M) for form in ("^ExecStart=(.*)$", '"NMT_OPTIONS=(.*)"', r"^TimeoutStopSec=(\d+)$")
    )
    program, *words = shlex.split(started)
    assert program == "/opt/nmt/bin/nmt" and words.pop() == "$NMT_OPTIONS"
    options = check_arguments([*words, *added.split()])
    assert options["host"] == "127.0.0.1" and int(seconds) > options["grace"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_unit_and_its_confinement(tmp_path: Path) -> None:
    copy = tmp_path / UNIT.name  # systemd looks for the program
    copy.write_text(UNIT.read_text(encoding="utf-8").replace("/opt/nmt/bin/nmt", "/bin/true"), encoding="utf-8")
    for options in (["verify"], ["security", "--offline=true", "--threshold=15", "--no-pager"]):
        done = subprocess.run(["systemd-analyze", *options, copy], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout[-200:]
