"""Tests of `nmt push` with the real client and a local stand-in for the Hub."""

from __future__ import annotations

import json
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


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = shutil.copytree(GOLDEN / "run", tmp_path_factory.mktemp("golden") / "run")
    return export(ExportOptions(run), run.parent / "folder", "folder").path


def lines() -> list[str]:
    return json.loads((GOLDEN / "translations.json").read_text(encoding="utf-8"))["source"]


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
    pushed_config = yaml.safe_load(files(hub)["config.yaml"])
    assert (pushed_config["data"]["root"], pushed_config["training"]["run_dir"]) == (".", "runs/{direction}")
    assert hub.token not in pushed.out + pushed.err
    assert "DIR" not in section(files(hub)["README.md"].decode(), "Use")
    assert sum("/commit/" in request for request in hub.requests) == 1

    text = tmp_path / "text"
    text.write_text("".join(f"{line}\n" for line in lines()), encoding="utf-8")
    for options in (["--run", run], ["--model", f"hf://{NAME}"], ["--model", f"hf://{NAME}@main"]):
        assert nmt("translate", *options, "--input", text, "--output", tmp_path / "out").status == 0
        (tmp_path / "out").rename(tmp_path / str(options[1]).replace("/", "-").replace(str(tmp_path), ""))
    found = {path.read_bytes() for path in tmp_path.glob("hf:*")} | {
        "".join(f"{line}\n" for line in Translator.load(run).translate(lines())).encode()
    }
    assert len(found) == 1

    again = nmt("push", "--license", "cc-by-4.0", "--public", run, NAME)
    assert (again.status, again.out.splitlines()[0].split(": ")[1]) == (0, "nothing has changed, private")
    assert "already exists and remains private" in again.err


def test_exported_directory_is_pushed_unchanged(hub: Hub, exported: Path, nmt: Command, tmp_path: Path) -> None:
    assert nmt("push", "--public", exported, NAME).out.splitlines()[0].endswith(": pushed, public")
    wanted = {str(path.relative_to(exported)): path.read_bytes() for path in exported.rglob("*") if path.is_file()}
    card = wanted.pop("README.md").decode()
    assert {name: files(hub)[name] for name in wanted} == wanted
    assert files(hub).keys() - wanted.keys() == {".gitattributes", "README.md"}
    pushed_card = files(hub)["README.md"].decode()
    assert pushed_card.split("## Use")[0] == card.split("## Use")[0]
    assert "--model DIR " in card and f"--model hf://{NAME} " in pushed_card
    for_ctranslate2 = export(ExportOptions(GOLDEN / "run", check_lines=5), tmp_path / "DIR", "ctranslate2").path
    before = {str(path.relative_to(for_ctranslate2)) for path in for_ctranslate2.rglob("*") if path.is_file()}
    for name in (".notes", "notes", "tokenizer/notes"):
        (for_ctranslate2 / name).write_text("mine alone")
    (for_ctranslate2 / "link").symlink_to("/etc/hostname")
    edited = (for_ctranslate2 / "README.md").read_bytes().replace(b"## Use\n", b"## How to use it\r\n")
    (for_ctranslate2 / "README.md").write_bytes(edited)
    nmt("push", for_ctranslate2, NAME)
    assert files(hub)["README.md"] == edited, "as it was written by hand"
    assert files(hub).keys() - {".gitattributes"} == before, "what nmt export did not write stays here"
    found = load_ctranslate2(api.download(f"hf://{NAME}")).translate(lines())
    assert found == Translator.load(GOLDEN / "run").translate(lines())
    (for_ctranslate2 / "README.md").write_bytes(edited + "für".encode("latin-1"))
    refused = nmt("push", for_ctranslate2, "a/new")
    assert (refused.status, f"README.md: not UTF-8 at byte {len(edited) + 1}" in refused.err) == (2, True)
    assert nmt("push", "--evaluate", exported, NAME).status == 2, "it is already exported"


def test_transformers_export_is_pushed_without_loading(hub: Hub, nmt: Command, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    pushed = nmt("push", "--format", "transformers", "--license", "mit", "--public", run, NAME)
    assert (pushed.status, hub.private[NAME]) == (0, False), pushed.err
    wanted = export(ExportOptions(run, license="mit"), tmp_path / "DIR", "transformers").path
    card, names = (wanted / "README.md").read_text(), {path.name for path in wanted.iterdir()}
    assert names == files(hub).keys() - {".gitattributes"}
    for name in names - {"README.md"}:
        assert files(hub)[name] == (wanted / name).read_bytes()
    assert files(hub)["README.md"].decode() == card.replace('"DIR"', f'"{NAME}"').replace(
        "With this directory as `DIR`:\n\n", ""
    )
    again = nmt("push", wanted, NAME)
    assert (again.status, again.out.splitlines()[0].split(": ")[1]) == (0, "nothing has changed, public")

    hub.requests.clear()
    for options in ([], ["--engine", "ctranslate2"]):
        refused = nmt("translate", "--model", f"hf://{NAME}", *options, "--input", tmp_path / "none")
        assert (refused.status, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert not any("model.safetensors" in request for request in hub.requests), "it is not downloaded first"

    nmt("push", write_run(tmp_path / "other"), NAME)
    assert files(hub).keys() & names == {"README.md", "translator.json"}, "the files of the former are gone"


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


def test_push_replaces_only_model_files(hub: Hub, exported: Path, tmp_path: Path) -> None:
    push(exported, find_repository(NAME))
    old = hub.commit(NAME, "main")
    hub.add(NAME, "main", files(hub) | {"LICENSE": b"mine"})
    other = shutil.copytree(exported, tmp_path / "other")
    document = json.loads((other / "translator.json").read_text())
    files(hub)["gone.bin"] = b"of an earlier export"
    document["checksums"]["gone.bin"] = ""
    files(hub)["translator.json"] = json.dumps(document).encode()
    files(hub)["calibration-de-en.json"] = b"of an earlier export"
    push(exported, find_repository(NAME))
    assert files(hub).keys().isdisjoint({"gone.bin", "calibration-de-en.json"})
    assert files(hub)["LICENSE"] == b"mine"
    assert download(f"hf://{NAME}@{old}").name == old


def test_repository_with_other_files_is_rejected_unless_forced(hub: Hub, exported: Path) -> None:
    hub.add(NAME, "main", {".gitattributes": b"", "pytorch_model.bin": b"precious"})
    with pytest.raises(DataError, match=r"contains files that nmt push did not write, such as pytorch_model.bin; "):
        find_repository(NAME)
    push(exported, find_repository(NAME, force=True))
    assert files(hub)["pytorch_model.bin"] == b"precious"
    hub.add(NAME, "main", {"translator.json": b"[]"})
    with pytest.raises(DataError, match=r"such as translator.json"):
        find_repository(NAME)


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


def test_model_is_downloaded_once(hub: Hub, exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    push(exported, find_repository(NAME))
    found = local_model(Path(f"hf://{NAME}"))
    assert not any(path.is_symlink() for path in found.rglob("*"))
    hub.requests.clear()
    assert local_model(f"hf://{NAME}") == found
    assert not any("GET" in request and "/resolve/" in request for request in hub.requests)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert download(f"hf://{NAME}") == found

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


def test_etag_that_is_a_path_raises_and_nothing_outside_the_cache_changes(
    hub: Hub, exported: Path, tmp_path: Path
) -> None:
    push(exported, find_repository(NAME))
    private = tmp_path / "private"
    private.write_bytes(b"private")
    for file in ("translator.json", "config.yaml", "weights.safetensors"):
        for path in ("../../../../private", "../../../../new", str(private), "W/../../../../../new", "..", "."):
            hub.etags = {file: f'"{path}"' if path[0] != "W" else path}
            with pytest.raises(HubError, match=r"ETag .* outside the cache"):
                download(f"hf://{NAME}")
    assert {path.name for path in tmp_path.iterdir()} == {"home", "private"}
    assert private.read_bytes() == b"private" and private.stat().st_nlink == 1
    hub.etags = {}
    assert load_folder(download(f"hf://{NAME}")).info == load_folder(exported).info


def test_link_out_of_the_cache_raises(hub: Hub, exported: Path, tmp_path: Path) -> None:
    push(exported, find_repository(NAME))
    private = tmp_path / "private"
    private.write_bytes(b"private")
    folder = tmp_path / "home" / "hub" / "models--me--tiny" / "snapshots" / hub.commit(NAME, "main")
    folder.mkdir(parents=True)
    for file in ("config.yaml", "not-in-the-repository"):
        (folder / file).symlink_to(private)
        with pytest.raises(HubError, match=f"{file}: leads out of the cache"):
            download(f"hf://{NAME}")
        (folder / file).unlink()
    assert private.stat().st_nlink == 1


@pytest.mark.usefixtures("hub")
def test_cached_repository_that_is_a_link_to_another_place_is_used(exported: Path, tmp_path: Path) -> None:
    push(exported, find_repository(NAME))
    cached = tmp_path / "home" / "hub" / "models--me--tiny"
    cached.parent.mkdir(parents=True)
    (tmp_path / "disk").mkdir()
    cached.symlink_to(tmp_path / "disk")
    found = download(f"hf://{NAME}")
    assert load_folder(found).info == load_folder(exported).info
    assert found.resolve().is_relative_to(tmp_path / "disk")


@pytest.mark.parametrize(("status", "said"), [(403, "no access"), (401, "rejects the token"), (410, "status 410")])
def test_refused_listing_is_reported_and_not_needed_for_a_model_in_the_cache(
    hub: Hub, exported: Path, status: int, said: str
) -> None:
    push(exported, find_repository(NAME))
    hub.refusals = {"/api/models/": (statuses := [status])}
    with pytest.raises(HubError, match=rf"hf://{NAME}, .*{said}"):
        download(f"hf://{NAME}")
    found = download(f"hf://{NAME}")
    statuses.append(status)
    assert download(f"hf://{NAME}") == found


@pytest.mark.parametrize(("status", "said"), [(403, "no access"), (404, "status 404"), (410, "status 410")])
def test_refused_file_is_reported_with_its_status(hub: Hub, exported: Path, status: int, said: str) -> None:
    push(exported, find_repository(NAME))
    hub.refusals = {"/config.yaml": [status] * 20}
    with pytest.raises(HubError, match=said) as caught:
        download(f"hf://{NAME}")
    assert "connection" not in str(caught.value)


def test_model_without_a_file_that_it_names_raises(hub: Hub, exported: Path) -> None:
    push(exported, find_repository(NAME))
    del files(hub)["config.yaml"]
    with pytest.raises(HubError, match=r"config\.yaml is missing"):
        download(f"hf://{NAME}")


def test_announced_size_is_checked_before_anything_arrives() -> None:
    with pytest.raises(HubError, match="has more than"):
        hub_module._limited_bar("a file")(total=hub_module.DOCUMENT_BYTES + 1, disable=True)


@pytest.mark.parametrize("is_announced", [True, False])
def test_large_file_in_place_of_small_one_is_not_received(
    hub: Hub, exported: Path, tmp_path: Path, is_announced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(exported, find_repository(NAME))
    monkeypatch.setattr("nmt.files.hub_client.DOCUMENT_BYTES", most := 1 << 20)
    whole = dict(files(hub))
    for file in ("translator.json", "config.yaml", "tokenizer/joint.model"):
        files(hub).update(whole)
        hub.sent = {file: bytes(most + 1)}
        if is_announced:
            files(hub).update(hub.sent)
        with pytest.raises(HubError, match=rf"{file}: has more than {most:,} bytes"):
            download(f"hf://{NAME}")
    assert not any(path.read_bytes() == bytes(most + 1) for path in tmp_path.rglob("*") if path.is_file())
