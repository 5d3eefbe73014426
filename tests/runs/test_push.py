"""Tests of `nmt push` with the real client and a local stand-in for the Hub."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from command import Command
from export_run import section, write_run
from hub_client import use_hub
from hub_server import Hub, serve
from nmt import api
from nmt.errors import DataError, HubError
from nmt.files import hub_client as hub_module
from nmt.layout import ExportDir, RunDir
from nmt.runs.folder import load_folder, seal
from nmt.runs.info import add_scores
from nmt.runs.kinds import Kind
from nmt.share import push as module
from nmt.share.engine import load_ctranslate2
from nmt.share.export import ExportOptions, export
from nmt.share.hub import download, local_model
from nmt.share.push import find_repository, push
from nmt.translate.loading import Translator
from places import GOLDEN
from scored_run import record

# the client itself uploads in a way that its HTTP library deprecates
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
NAME = "me/tiny"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Return a local Hub; its client has its own cache and token and does not wait."""
    with serve(Hub()) as hub:
        use_hub(hub, tmp_path / "home", monkeypatch)
        yield hub


@pytest.fixture
def pushed(hub: Hub, exported: Path) -> Hub:
    """The Hub with an exported model."""
    push(exported, find_repository(NAME))
    return hub


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = shutil.copytree(GOLDEN / "run", tmp_path_factory.mktemp("golden") / "run")
    return export(ExportOptions(run), run.parent / "folder", "folder").path


LINES: list[str] = json.loads((GOLDEN / "translations.json").read_text(encoding="utf-8"))["source"]


def files(hub: Hub) -> dict[str, bytes]:
    return hub.repositories[NAME]["main"]


# --- the commands ---------------------------------------------------------------------------------


def test_pushed_model_translates_like_run(hub: Hub, tmp_path: Path, nmt: Command) -> None:
    run = shutil.copytree(GOLDEN / "run", tmp_path / "run")
    for each in (record(bleu=10.0, step=400), record("other", bleu=20.0, step=400), record(bleu=30.0, step=400)):
        add_scores(RunDir(run), each)
    pushed = nmt("push", "--license", "cc-by-4.0", run, NAME)
    assert pushed.status == 0, pushed.err
    assert hub.private == {NAME: True}
    config = yaml.safe_load(files(hub)["config.yaml"])
    assert (config["data"]["root"], config["training"]["run_dir"]) == (".", "runs/{direction}")
    assert hub.token not in pushed.out + pushed.err
    assert "DIR" not in section(files(hub)["README.md"].decode(), "Use")
    assert sum("/commit/" in request for request in hub.requests) == 1

    Path("text").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    for options in (["--run", run], ["--model", f"hf://{NAME}"], ["--model", f"hf://{NAME}@main"]):
        done = nmt("translate", *options, "--input", "text")
        assert done.out.splitlines() == Translator.load(run).translate(LINES), done.err

    again = nmt("push", "--license", "cc-by-4.0", "--public", run, NAME)
    assert (again.status, again.out.splitlines()[0].split(": ")[1]) == (0, "nothing has changed, private")
    assert "already exists and remains private" in again.err


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_exported_directory_is_pushed_unchanged(hub: Hub, exported: Path, nmt: Command) -> None:
    assert nmt("push", "--public", exported, NAME).out.splitlines()[0].endswith(": pushed, public")
    wanted, stored = contents(exported), files(hub).copy()
    del stored[".gitattributes"]
    card, pushed_card = wanted.pop("README.md").decode(), stored.pop("README.md").decode()
    assert stored == wanted
    assert pushed_card.split("## Use")[0] == card.split("## Use")[0]
    assert "--model DIR " in card and f"--model hf://{NAME} " in pushed_card
    assert nmt("push", "--evaluate", exported, NAME).status == 2, "it is already exported"


def test_only_what_nmt_export_wrote_is_pushed_with_a_card_edited_by_hand(
    hub: Hub, nmt: Command, tmp_path: Path
) -> None:
    folder = export(ExportOptions(GOLDEN / "run", check_lines=5), tmp_path / "DIR", "ctranslate2").path
    before = contents(folder).keys()
    for name in (".notes", "notes", "tokenizer/notes"):
        (folder / name).write_text("mine alone")
    (folder / "link").symlink_to("/etc/hostname")
    edited = (folder / "README.md").read_bytes().replace(b"## Use\n", b"## How to use it\r\n")
    (folder / "README.md").write_bytes(edited)
    nmt("push", folder, NAME)
    assert files(hub)["README.md"] == edited and files(hub).keys() - {".gitattributes"} == before
    engine = load_ctranslate2(api.download(f"hf://{NAME}"))
    assert engine.translate(LINES) == Translator.load(GOLDEN / "run").translate(LINES)
    (folder / "README.md").write_bytes(edited + "für".encode("latin-1"))
    refused = nmt("push", folder, "a/new")
    assert (refused.status, f"README.md: not UTF-8 at byte {len(edited) + 1}" in refused.err) == (2, True)


@pytest.mark.parametrize(("kind", "large"), [("transformers", "model.safetensors"), ("onnx", ".onnx")])
def test_export_for_other_libraries_is_pushed_without_loading(
    kind: Kind, large: str, hub: Hub, nmt: Command, tmp_path: Path
) -> None:
    run = write_run(tmp_path / "run")
    pushed = nmt("push", "--format", kind, "--license", "mit", "--public", run, NAME)
    assert (pushed.status, hub.private[NAME]) == (0, False), pushed.err
    folder = export(ExportOptions(run, license="mit"), tmp_path / "DIR", kind).path
    wanted = contents(folder)
    card = wanted["README.md"].decode().replace("With this directory as `DIR`:\n\n", "")
    card = re.sub(r'"(?:\./)?DIR"', f'"{NAME}"', card)
    assert {name: files(hub)[name] for name in files(hub).keys() - {".gitattributes"}} == wanted | {
        "README.md": card.encode()
    }
    again = nmt("push", folder, NAME)
    assert (again.status, again.out.splitlines()[0].split(": ")[1]) == (0, "nothing has changed, public")

    hub.requests.clear()
    for options in ([], ["--engine", "ctranslate2"]):
        refused = nmt("translate", "--model", f"hf://{NAME}", *options, "--input", tmp_path / "none")
        assert (refused.status, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert not any(large in request for request in hub.requests), "it is not downloaded first"

    nmt("push", write_run(tmp_path / "other"), NAME)
    assert files(hub).keys() & wanted.keys() == {"README.md", "translator.json"}, "the files of the former are gone"


@pytest.mark.parametrize("kind", ["argos", "web"])
def test_formats_that_are_not_for_the_hub_are_refused(kind: Kind, hub: Hub, nmt: Command, tmp_path: Path) -> None:
    refused = nmt("push", "--format", kind, write_run(tmp_path / "run"), NAME)
    assert refused.status == 2 and f"--format {kind}" in refused.err and not hub.requests


@pytest.mark.usefixtures("hub")
def test_shortlist_and_calibrations_are_pushed_and_downloaded(exported: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(exported, tmp_path / "DIR")
    (folder / "vmap.txt").write_text("a\tb\n", encoding="utf-8")
    seal(ExportDir(folder), load_folder(folder).info)
    (folder / "calibration-de-en.json").write_text("{}", encoding="utf-8")
    push(folder, find_repository(NAME))
    found = download(f"hf://{NAME}")
    assert all((found / name).is_file() for name in ("vmap.txt", "calibration-de-en.json"))


# --- pushing ----------------------------------------------------------------------------------------


def test_push_replaces_only_model_files(pushed: Hub, exported: Path) -> None:
    old = pushed.commit(NAME, "main")
    document = json.loads(files(pushed)["translator.json"])
    document["checksums"]["gone.bin"] = ""
    earlier = {"gone.bin": b"", "calibration-de-en.json": b"", "translator.json": json.dumps(document).encode()}
    pushed.add(NAME, "main", files(pushed) | earlier | {"LICENSE": b"mine"})
    push(exported, find_repository(NAME))
    assert files(pushed).keys().isdisjoint({"gone.bin", "calibration-de-en.json"})
    assert files(pushed)["LICENSE"] == b"mine"
    assert download(f"hf://{NAME}@{old}").name == old


def test_repository_with_other_files_is_rejected_unless_forced(hub: Hub, exported: Path) -> None:
    for name, content in (("translator.json", b"[]"), ("pytorch_model.bin", b"precious")):
        hub.add(NAME, "main", {".gitattributes": b"", name: content})
        with pytest.raises(DataError, match=rf"contains files that nmt push did not write, such as {name}; "):
            find_repository(NAME)
    push(exported, find_repository(NAME, force=True))
    assert files(hub)["pytorch_model.bin"] == b"precious"


def test_lost_response_to_creation_raises(hub: Hub, exported: Path) -> None:
    hub.lost = {"create": [502]}
    with pytest.raises(HubError, match="was created in the meantime; push again"):
        push(exported, find_repository(NAME))
    assert push(exported, find_repository(NAME)).private
    assert "weights.safetensors" in files(hub)


def test_broken_upload_is_retried(hub: Hub, exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.refusals = {"/commit/": [502, 0]}
    with pytest.raises(HubError, match="the Hub cannot be reached"):
        push(exported, find_repository(NAME))
    assert list(files(hub)) == [".gitattributes"], "all or nothing"
    hub.refusals = {"/api/models/": [503, 500], "/commit/": [504]}
    said: list[str] = []
    monkeypatch.setattr(module, "say", said.append)
    assert push(exported, find_repository(NAME)).changed
    assert [line.split(" s: ")[0] for line in said] == [
        "the Hub has a temporary problem, trying again in 1", "the Hub has a temporary problem, trying again in 4",
        "the Hub has a temporary problem, trying again in 1",
    ]  # fmt: skip
    assert sum(request.startswith("PUT /stored/") for request in hub.requests) == 1, "the weights were sent once"
    hub.refusals = {"/api/models/": [500] * 9}
    with pytest.raises(HubError, match="the Hub responded with status 500: "):
        find_repository(NAME)


def test_failed_xet_upload_raises(hub: Hub, exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", False)
    hub.refusals = {"/xet-write-token/": [404] * 9}
    with pytest.raises(HubError) as caught:
        push(exported, find_repository(NAME))
    assert "\n" not in str(caught.value) and hub.token not in str(caught.value)
    assert list(files(hub)) == [".gitattributes"]


# --- downloading --------------------------------------------------------------------------------------


def test_model_is_downloaded_once(pushed: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = local_model(Path(f"hf://{NAME}"))
    assert not any(path.is_symlink() for path in folder.rglob("*"))
    pushed.requests.clear()
    assert local_model(f"hf://{NAME}") == folder
    assert not any("GET" in request and "/resolve/" in request for request in pushed.requests)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert download(f"hf://{NAME}") == folder
    with pytest.raises(HubError, match=r"hf://me/other, at .*: not downloaded yet, and HF_HUB_OFFLINE is set"):
        download("hf://me/other")
    assert local_model("runs/hf") == Path("runs/hf")


@pytest.mark.usefixtures("hub")
def test_model_without_card_is_downloaded(exported: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(exported, tmp_path / "DIR")
    (folder / "README.md").unlink()
    push(folder, find_repository(NAME))
    assert load_folder(download(f"hf://{NAME}")).info == load_folder(exported).info


# --- hubs that are not trusted ------------------------------------------------------------------------


@pytest.fixture
def private(tmp_path: Path) -> Iterator[Path]:
    """A file outside the cache, which must not change."""
    path = tmp_path / "private"
    path.write_bytes(b"private")
    yield path
    assert path.read_bytes() == b"private" and path.stat().st_nlink == 1


@pytest.mark.parametrize("file", ["translator.json", "config.yaml", "weights.safetensors"])
def test_etag_that_is_a_path_raises_and_nothing_outside_the_cache_changes(
    file: str, pushed: Hub, exported: Path, private: Path
) -> None:
    for path in ("../../../../private", "../../../../new", str(private), "W/../../../../../new", "..", "."):
        pushed.etags = {file: f'"{path}"' if path[0] != "W" else path}
        with pytest.raises(HubError, match=r"ETag .* outside the cache"):
            download(f"hf://{NAME}")
    assert {path.name for path in private.parent.iterdir()} - {"home"} == {"private"}
    pushed.etags = {}
    assert load_folder(download(f"hf://{NAME}")).info == load_folder(exported).info


@pytest.mark.parametrize("file", ["config.yaml", "not-in-the-repository"])
def test_link_out_of_the_cache_raises(file: str, pushed: Hub, private: Path) -> None:
    folder = private.parent / "home" / "hub" / "models--me--tiny" / "snapshots" / pushed.commit(NAME, "main")
    folder.mkdir(parents=True)
    (folder / file).symlink_to(private)
    with pytest.raises(HubError, match=f"{file}: leads out of the cache"):
        download(f"hf://{NAME}")


@pytest.mark.usefixtures("pushed")
def test_cached_repository_that_is_a_link_to_another_place_is_used(exported: Path, tmp_path: Path) -> None:
    cached, disk = tmp_path / "home" / "hub" / "models--me--tiny", tmp_path / "disk"
    cached.parent.mkdir(parents=True)
    disk.mkdir()
    cached.symlink_to(disk)
    folder = download(f"hf://{NAME}")
    assert load_folder(folder).info == load_folder(exported).info and folder.resolve().is_relative_to(disk)


@pytest.mark.parametrize(("status", "said"), [(403, "no access"), (401, "rejects the token"), (410, "status 410")])
def test_refused_listing_is_reported_and_not_needed_for_a_model_in_the_cache(
    pushed: Hub, status: int, said: str
) -> None:
    pushed.refusals = {"/api/models/": (statuses := [status])}
    with pytest.raises(HubError, match=rf"hf://{NAME}, .*{said}"):
        download(f"hf://{NAME}")
    folder = download(f"hf://{NAME}")
    statuses.append(status)
    assert download(f"hf://{NAME}") == folder


@pytest.mark.parametrize(("status", "said"), [(403, "no access"), (404, "status 404"), (410, "status 410")])
def test_refused_file_is_reported_with_its_status(pushed: Hub, status: int, said: str) -> None:
    pushed.refusals = {"/config.yaml": [status] * 20}
    with pytest.raises(HubError, match=said) as caught:
        download(f"hf://{NAME}")
    assert "connection" not in str(caught.value)


def test_model_without_a_file_that_it_names_raises(pushed: Hub) -> None:
    del files(pushed)["config.yaml"]
    with pytest.raises(HubError, match=r"config\.yaml is missing"):
        download(f"hf://{NAME}")


def test_announced_size_is_checked_before_anything_arrives() -> None:
    with pytest.raises(HubError, match="has more than"):
        hub_module._limited_bar("a file")(total=hub_module.DOCUMENT_BYTES + 1, disable=True)


@pytest.mark.parametrize("file", ["translator.json", "config.yaml", "tokenizer/joint.model"])
@pytest.mark.parametrize("is_announced", [True, False])
def test_large_file_in_place_of_small_one_is_not_received(
    pushed: Hub, tmp_path: Path, is_announced: bool, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.files.hub_client.DOCUMENT_BYTES", most := 1 << 20)
    pushed.sent = {file: bytes(most + 1)}
    if is_announced:
        files(pushed).update(pushed.sent)
    with pytest.raises(HubError, match=rf"{file}: has more than {most:,} bytes"):
        download(f"hf://{NAME}")
    assert not any(path.stat().st_size > most for path in (tmp_path / "home").rglob("*") if path.is_file())
