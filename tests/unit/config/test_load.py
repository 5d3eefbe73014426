"""Tests of configurations: loading, error messages, overrides and dumps.

The wording of messages about settings is tested here, and only here.
"""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from nmt.config import Config
from nmt.config.load import dump_config, load_config
from nmt.data.settings import DataConfig
from nmt.data.sources import KINDS, TrainFiles, TrainPath
from nmt.errors import ConfigError, UnsafeFileError
from nmt.files.yaml12 import parse_yaml
from nmt.model.settings import ModelConfig
from nmt.search.settings import SearchConfig
from nmt.section import Section
from untraced import untraced

BASE = """\
data:
  direction: de-en
  train:
    - files: {de: a.de, en: a.en}
  valid:
    files: {de: v.de, en: v.en}
"""


def load(text: str | bytes, *overrides: str) -> Config:
    Path("c.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_config("c.yaml", overrides)


def problems(text: str | bytes, *overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(text, *overrides)
    assert str(caught.value) == "\n".join(caught.value.problems)
    return caught.value.problems


def test_only_listed_directions_have_language_tags() -> None:
    for setting, has_tags, tags in (("direction: de-en", False, []), ("directions: [de-en]", True, ["to=en"])):
        config = load(BASE.replace("direction: de-en", setting))
        data = config.data
        assert (data.all_directions, data.direction, data.pairs) == (["de-en"], "de-en", {"de-en": "de-en"})
        assert (data.has_language_tags, data.language_tags) == (has_tags, tags) and not data.has_several_directions
        assert load(dump_config(config)) == config and data.towards("de-en").has_language_tags == has_tags
        assert not data.without_language_tags().has_language_tags and data.has_language_tags == has_tags
    assert load(BASE, "data.direction=en-de").data.all_directions == ["en-de"]


def test_corpora_given_as_objects_may_hold_out_the_development_set() -> None:
    corpora = [TrainFiles(files={"de": "a", "en": "b"}, valid=300)]
    data = DataConfig(direction="de-en", train=corpora)
    assert (data.valid, data.train) == (None, corpora)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("training: {warmup_step: 3}", "training.warmup_step: no such setting; did you mean training.warmup_steps?"),
        ("model: {warmup_steps: 3}", "model.warmup_steps: no such setting; did you mean training.warmup_steps?"),
        ("trainng: {seed: 3}", "trainng: no such setting; did you mean training?"),
        ("quux: 3", "quux: no such setting"),
        ("training.seed: 3", "training.seed: dotted keys are only for --set; in a file, nest keys by indentation"),
        ("training: {seed: many}", "training.seed: must be a whole number, found 'many'"),
        ('training: {seed: "4"}', "training.seed: must be a whole number, found '4'"),
        ("training: {seed: 4.5}", "training.seed: must be a whole number, found 4.5"),
        ("training: {seed: 1_000}", "training.seed: must be a whole number, found '1_000'"),
        ("training: {seed: }", "training.seed: must be a whole number, found nothing"),
        ("training: {seed: true}", "training.seed: must be a whole number, found true"),
        ("training: {peak_lr: fast}", "training.peak_lr: must be a number, found 'fast'"),
        ("training: {peak_lr: 1:30}", "training.peak_lr: must be a number, found '1:30'"),
        ("training: {peak_lr: .nan}", "training.peak_lr: must be a finite number, found nan"),
        ("training: {peak_lr: .inf}", "training.peak_lr: must be a finite number, found inf"),
        ("training: {run_dir: 7}", "training.run_dir: must be text, found 7"),
        ("training: {max_tokens: much}", "training.max_tokens: must be a whole number or auto, found 'much'"),
        (
            "training: {max_tokens: 1}",
            "training.max_tokens: must be at least 2 or auto, found 1",
        ),
        ("search: {protect: yes}", "search.protect: must be placeholders or true or false or a list, found 'yes'"),
        ("tokenizer: {joint: yes}", "tokenizer.joint: must be true or false, found 'yes'"),
        (
            "training: {precision: float16}",
            "training.precision: must be auto, float32, bf16 or fp16, found 'float16'; did you mean fp16?",
        ),
        ("training: {max_steps: 3, init_from: 1.5}", "training.init_from: must be text or a mapping, found 1.5"),
        ("training: {init_from: {a: b}}", "training.init_from.a: must be encoder or decoder, found 'a'"),
        ("tokenizer: 3", "tokenizer: must be a mapping, found 3"),
        ("tokenizer:", "tokenizer: must be a mapping, found nothing"),
        ("training: {warmup_steps: 0}", "training.warmup_steps: must be at least 1, found 0"),
        ("training: {label_smoothing: 1.0}", "training.label_smoothing: must be less than 1, found 1.0"),
        ("training: {max_minutes: -1}", "training.max_minutes: must be greater than 0, found -1"),
        ("model: {norm: middle}", "model.norm: must be pre or post, found 'middle'"),
        (f"training: {{run_dir: [{'x' * 99}]}}", f"training.run_dir: must be text, found ['{'x' * 55}..."),
        # checks of several fields together
        ("model: {d_model: 100, n_heads: 3}", "model.n_heads: 3 does not divide d_model = 100"),
        ("model: {d_model: 3, n_heads: 1}", "model.d_model: sinusoidal positions need an even width, found 3"),
        ("training: {average_last: 9}", "training.average_last: 9 is more than keep_last = 5"),
        (
            "training: {schedule: cosine, max_steps: 50, warmup_steps: 50}",
            "training.warmup_steps: must be below max_steps = 50 for the cosine schedule to decay, found 50",
        ),
        (
            "training: {consistency: simcut, cut_rate: 0}\nmodel: {embedding_dropout: 0, residual_dropout: 0}",
            "training.consistency: simcut needs cut_rate above 0; all model.*_dropout are 0",
        ),
        (
            "tokenizer: {joint: false}",
            "model.tie_embeddings: all needs tokenizer.joint: true",
        ),
        (
            "training: {optimizer: muon, parallel: fsdp}",
            "training.optimizer: muon is not available with parallel: fsdp; use adamw",
        ),
        (
            "training: {max_tokens: 250}",
            "training.max_tokens: 250 is too small for data.max_pieces = 250 and an end of sentence",
        ),
        (
            "model: {positions: learned, max_positions: 250}",
            "model.max_positions: 250 is too small for data.max_pieces = 250 and an end of sentence",
        ),
    ],
)
def test_message_about_invalid_value_is_one_line(text: str, expected: str) -> None:
    assert problems(BASE + text + "\n") == [f"c.yaml: {expected}"]


def test_unknown_name_suggests_similar_name() -> None:
    with pytest.raises(ConfigError, match=r"^sampel\.yaml: .*did you mean sample\.yaml\?$"):
        load_config("sampel.yaml")
    [problem] = problems(BASE, "data.train=[{path: a, format: ts}]")
    assert problem == "--set data.train.0.format: found 'ts'; did you mean tsv?"


def test_whole_number_with_exponent_is_parsed_as_integer() -> None:
    assert repr(parse_yaml("[1e3, 2E+2, 1e-3, 1.0e3, 1e30]", "text")) == "[1000, 200, 0.001, 1000.0, 1e+30]"


DROPOUTS = "model.embedding_dropout, model.residual_dropout, model.attention_dropout or model.activation_dropout"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("training.lr", "; did you mean training.peak_lr (with the schedule noam, training.factor)?"),
        ("training.learning-rate", "; did you mean training.peak_lr (with the schedule noam, training.factor)?"),
        ("training.batch_size", "; did you mean training.update_tokens (in target tokens)?"),
        ("search.batch_size", "; did you mean search.batch_tokens (in source tokens)?"),
        ("training.epochs", "; did you mean training.max_epochs?"),
        ("training.max_epoch", "; did you mean training.max_epochs?"),
        ("training.max_update", "; did you mean training.max_steps?"),
        ("training.fp16", "; did you mean training.precision?"),
        ("training.vocab", "; did you mean tokenizer.vocab_size?"),
        ("training.seed_value", "; did you mean training.seed?"),
        ("model.dropout", f"; did you mean {DROPOUTS}?"),
        ("training.dropout", f"; did you mean {DROPOUTS}?"),
        ("search.max_len", "; did you mean search.max_length_offset?"),
        ("search.n_best", "; nmt translate --n-best N prints several translations per line"),
        ("epochs", "; did you mean training.max_epochs?"),
        ("trainig", "; did you mean training?"),
        # without a suggestion
        ("training.bptt", ""),
        ("training.amount", ""),
        ("search.nest", ""),
        ("data.importance", ""),
        ("data.train.0.mass", ""),
        ("banana", ""),
    ],
)
def test_unknown_setting_suggests_nearest(key: str, expected: str) -> None:
    assert f"--set {key}: no such setting{expected}" in problems(BASE, f"{key}=1")


def test_all_problems_are_reported_at_once() -> None:
    text = BASE + "training: {warmup_step: 0, clip_norm: -1}\nmodel: {d_model: 100, n_heads: 3}\n"
    assert sorted(problems(text, "search.beam=0", "search.baem=1", "nonsense")) == [
        "--set nonsense: write it as section.key=value",
        "--set search.baem: no such setting; did you mean search.beam?",
        "--set search.beam: must be at least 1, found 0",
        "c.yaml: model.n_heads: 3 does not divide d_model = 100",
        "c.yaml: training.clip_norm: must be at least 0, found -1",
        "c.yaml: training.warmup_step: no such setting; did you mean training.warmup_steps?",
    ]


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("data.direction=deen", ["direction: 'deen' is not of the form de-en"]),
        ("data.direction=de,fr-en", ["direction: 'de,fr-en' is not of the form de-en; a model has several directions"]),
        ("data.direction=pt-BR-en", ["direction: 'pt-BR-en' is not of the form de-en; a region is written"]),
        ("data.direction=de-de", ["direction: 'de-de'"]),
        ("data.valid={}", ["valid: must be a mapping with exactly one of files, path, opus and hub, found {}"]),
        ("data.valid=300.0", ["valid: must be a whole number of lines, such as 300, or a share below 1"]),
        ("data.valid=300.5", ["valid: must be a whole number of lines, such as 300, or a share below 1"]),
        ("data.valid='300'", ["valid: must be a number without quotes: write 300, not '300'"]),
        ("data.valid={hub: a/b}", ["valid.paths: must be given"]),
        (
            "data.valid={hub: a/b, paths: [x.csv, y.jsonl]}",
            ["valid.paths: must all have the same suffix"],
        ),
        (
            "data.valid={files: {de: a, en: b}, columns: {de: a, en: b}}",
            ["valid.columns: only available with path and hub"],
        ),
        ("data.train.0.file=x", ["train.0.file: no such setting; did you mean data.train.0.files?"]),
        ("data.train=[]", ["train: must have at least one entry, found []"]),
        ("data.test={dev/2: {files: {de: a, en: b}}}", ["test: 'dev/2' is not a valid name"]),
        ("data.test={train: {files: {de: a, en: b}}}", ["test: 'train' is not a valid name"]),
        ("data.test={x: {files: {de: a, fr: b}}}", ["test.x.files: must name de and en, found de, fr"]),
        ("data.test={x: {files: {}}}", ["test.x.files: must name de and en, found none"]),
    ],
)
def test_invalid_data_section_is_rejected(override: str, expected: list[str]) -> None:
    for problem, start in zip(problems(BASE, override), expected, strict=True):
        assert problem.startswith(f"--set data.{start}")


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        (
            "data.direction=fr-en",
            "c.yaml: data.train.0.files: must name en and fr, found de, en\n"
            "c.yaml: data.valid.files: must name en and fr, found de, en",
        ),
        ("training.seed", "--set training.seed: write it as section.key=value"),
        ("=3", "--set =3: write it as section.key=value"),
        ("training.=3", "--set training.=3: write it as section.key=value"),
        ("data.train.9.name=x", "--set data.train.9.name=x: data.train.9.name is not a setting"),
        ("data.train.first.name=x", "--set data.train.first.name=x: data.train.first.name is not a setting"),
        ("training.seed=", "--set training.seed: must be a whole number, found nothing"),
    ],
)
def test_invalid_override_is_rejected(override: str, expected: str) -> None:
    assert problems(BASE, override) == expected.split("\n")


@pytest.mark.parametrize(
    "override",
    ["training.seed=[", "training.seed=--- 1\n--- 2", "a\nb=1", "a\x1b[31m.b", "data.train.7=\u2028"],
)
def test_message_about_control_characters_is_one_line(override: str) -> None:
    (problem,) = problems(BASE, override)
    assert problem.isprintable()


@pytest.mark.parametrize("setting", ["training: {seed: %s}", "data: {root: %s}", "data: {train: [%s]}", "search: %s"])
def test_message_about_yaml_bomb_is_short(setting: str) -> None:
    bomb = ", ".join(["a0: &a0 [x, x]", *(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 60))])
    for text in (f"{{{bomb}}}", f"[{{{bomb}}}, *a59]"):
        assert max(map(len, problems(setting % text + "\n"))) < 200


@pytest.mark.parametrize("section", [SearchConfig, ModelConfig])
def test_numbers_that_translation_depends_on_are_bounded(section: type[Section]) -> None:
    checked = set()
    for name, field in section.model_fields.items():
        for value in (10**400, 10**30, 1e300, -(10**30), float("nan"), float("inf")):
            whole = field.annotation is int and isinstance(value, int)
            if name == "seed" and isinstance(value, int) and value > 0:  # of any size
                continue
            if whole or field.annotation is float:
                with pytest.raises(ValidationError):
                    section.model_validate({name: value})
                checked.add(name)
    assert {"beam", "patience", "d_model"} & checked


def test_overrides_replace_nested_values() -> None:
    config = load(
        BASE + "training: {eps: 1, max_minutes: 3}\n",
        "training.eps=3e-4",
        "training.max_minutes=null",
        "data.dir=a=b/{direction}",
        "data.train.0={files: {de: b.de, en: b.en}}",
        "data.train.0.name=first",
        "data.test.new={files: {de: t.de, en: t.en}}",
        "data.test.other.files={de: o.de, en: o.en}",
        "model.tie_embeddings=none",
        "search.beam=1",
        "search.beam=2",
    )
    assert (config.training.eps, config.training.max_minutes, config.model.tie_embeddings) == (3e-4, None, "none")
    assert config.data.directory == Path("a=b/de-en") and list(config.data.test) == ["new", "other"]
    assert config.data.train[0] == TrainFiles(files={"de": "b.de", "en": "b.en"}, name="first")
    assert config.search.beam == 2  # the last one counts


def test_yaml_scalars_follow_version_1_2() -> None:
    text = BASE.replace("de", "no").replace("noer", "der").replace("direction: no-en", "direction: no-en")
    config = load(text, "training.seed=010", "data.root=2020-01-01", "training.run_dir=on")
    assert (config.data.pair, config.data.train[0].files) == (("en", "no"), {"no": "a.no", "en": "a.en"})
    # an octal number, a date and true in YAML 1.1
    assert (config.training.seed, config.data.root, config.training.run_dir) == (10, "2020-01-01", "on")
    assert load(BASE + "training: {seed: 0x1F, eps: +1.5E-9, factor: .5}").training.seed == 31


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("training: {seed: 1, seed: 2}", r"seed is given twice at line 7, column 21"),
        ("training: {seed: 1}\ntraining: {seed: 1}", r"training is given twice at line 8, column 1"),
        (
            "training:\n\tseed: 1",
            r"found character '\\t' that cannot start any token at line 8, column 1; indent with spaces$",
        ),
        ("training: [", r"expected the node content, but found '<stream end>'"),
        ("training: a: b", r"mapping values are not allowed here at line 7"),
        ("training: {1: 2}", r"the key 1 is not text at line 7"),
        ("training: !!python/object/apply:os.system [ls]", r"could not determine a constructor"),
        ("training: *nowhere", r"undefined alias"),
        ("training: &a {seed: *a}", r"aliases repeat too much at line 7"),
        (f"training: [&a [x, x], &b [{'*a, ' * 1000}], {'*b, ' * 1000}]", r"aliases repeat too much at line 7"),
        (f"training: [&a {'x' * 100_000}, {'*a, ' * 10}]", r"aliases repeat too much at line 7"),
        ("---\nmore: 1", r"expected a single document"),
        ("training: {seed: " + "9" * 5000 + "}", r"the number '9+\.\.\. is too large at line 7, column 18$"),
        ("training: {seed: !!int x}", r"could not determine a constructor"),
        ("training: {seed: !!map 3}", r"expected 2"),
        ('training: {run_dir: "a\\0b"}', r"the text 'a.x00b' has an invalid character at line 7, column 21$"),
        ('training: {run_dir: "\\ud800"}', r"the text '.ud800' has an invalid character"),
        ("training: " + "[" * 1000, r"nested too deeply"),
    ],
)
def test_message_about_invalid_yaml_is_one_line(text: str, expected: str) -> None:
    (problem,) = problems(BASE + text + "\n")
    assert re.match(r"c\.yaml: not valid YAML: .*" + expected, problem) and "\n" not in problem, problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "c.yaml: a config must be a mapping of sections, found nothing"),
        ("# a comment\n", "c.yaml: a config must be a mapping of sections, found nothing"),
        ("- data\n- model\n", "c.yaml: a config must be a mapping of sections, found a list"),
        ("hello\n", "c.yaml: a config must be a mapping of sections, found 'hello'"),
        ("model: {}\n", "c.yaml: data: must be given"),
        (b"data:\n  \xff\xfe\x00", "c.yaml: not UTF-8 at byte 9; save it as UTF-8 text"),
        (b"\x89PNG\r\n\x1a\n", "c.yaml: not UTF-8 at byte 1; save it as UTF-8 text"),
    ],
)
def test_file_without_mapping_is_rejected(text: str | bytes, expected: str) -> None:
    assert problems(text) == [expected]


def test_unreadable_file_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"^/proc/self/mem: cannot be read: Input/output error$"):
        load_config("/proc/self/mem")


def test_oversized_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("data: [" + "1," * 500_000 + "1]\n")
    with pytest.raises(UnsafeFileError, match=r"c\.yaml: 1,000,010 bytes, more than such a file has \(262,144\)$"):
        load_config(tmp_path / "c.yaml")


def test_byte_order_mark_and_crlf_are_accepted() -> None:
    assert load(b"\xef\xbb\xbf" + BASE.replace("\n", "\r\n").encode()) == load(BASE)


def test_config_is_looked_up_in_order() -> None:
    assert load_config("sample.yaml").data.root == "data/sample"  # as it is shipped
    Path("configs").mkdir()
    for path, name in (("configs/sample.yaml", "beside.de"), ("sample.yaml", "here.de")):
        Path(path).write_text(BASE.replace("v.de", name))
        assert load_config("sample.yaml").data.valid.files == {"de": name, "en": "v.en"}
    with pytest.raises(ConfigError, match=r"^configs: is a directory, not a config file$"):
        load_config("configs")
    for name in ("nope.yaml", ""):
        with pytest.raises(ConfigError, match=f"^{name}: .*adapt.yaml, base-best.yaml, base.yaml, imdb.yaml, iwslt14"):
            load_config(name)


def test_direction_is_replaced_in_directory_names() -> None:
    forth, back = load(BASE), load(BASE, "data.direction=en-de")
    assert (forth.data.src, forth.data.tgt, back.data.src, back.data.tgt) == ("de", "en", "en", "de")
    assert forth.data.directory == back.data.directory == Path("data/prepared/de-en")
    assert (forth.run_directory, back.run_directory) == (Path("runs/de-en"), Path("runs/en-de"))
    assert load(BASE.replace("de", "pt_BR").replace("inpt_BRr", "inder")).data.pair == ("en", "pt_BR")


# --- dump and load ------------------------------------------------------------------------------

# Text of file names, and text that YAML 1.1 or 1.2 could read as another type.
WORDS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=150),
    st.sampled_from(["no", "yes", "on", "null", "~", "true", "1e5", "3e-4", "0o17", "010", "1_000", ".inf", "1:30"]),
    st.sampled_from(
        [
            "2020-01-01",
            "=",
            "<<",
            "-",
            "?",
            "a: b",
            "a #b",
            "# a",
            "{direction}",
            "[a]",
            "'",
            '"',
            "!x",
            "&x",
            "*x",
            "|",
            ">",
            "%",
            "@",
            "`",
        ]
    ),
)
FILES = st.fixed_dictionaries({"de": WORDS, "en": WORDS})
HUB = {"hub": WORDS, "paths": st.just(["a/*.parquet"])}
SOURCES = st.one_of(
    st.fixed_dictionaries({"files": FILES}, optional={"name": WORDS}),
    st.fixed_dictionaries(HUB, optional={"revision": WORDS, "name": WORDS}),
    st.fixed_dictionaries({**HUB, "columns": FILES}),
)
RATES = st.floats(0, 0.99)
CONFIGS = st.fixed_dictionaries(
    {
        "data": st.fixed_dictionaries(
            {"direction": st.sampled_from(["de-en", "en-de"]), "train": st.lists(SOURCES, min_size=1, max_size=3)}
            | {"valid": SOURCES},
            optional={
                "dir": WORDS,
                "root": WORDS,
                "test": st.dictionaries(st.sampled_from(["test", "no", "1e5", "t.1"]), SOURCES),
                "max_ratio": st.floats(1, 1e300),
            },
        ),
    },
    optional={
        "tokenizer": st.fixed_dictionaries({}, optional={"vocab_size": st.integers(300, 1_000_000)}),
        "model": st.fixed_dictionaries(
            {}, optional={"norm": st.sampled_from(["pre", "post"]), "residual_dropout": RATES}
        ),
        "training": st.fixed_dictionaries(
            {},
            optional={
                "eps": st.floats(0, exclude_min=True, allow_infinity=False),
                "max_minutes": st.none() | st.floats(1e-9, 1e9),
                "max_epochs": st.none() | st.integers(1, 10**17),
                "clip_norm": RATES,
                "run_dir": WORDS,
            },
        ),
        "search": st.fixed_dictionaries({}, optional={"length_penalty": st.floats(-10, 10)}),
    },
)


@settings(max_examples=40)
@given(CONFIGS, st.booleans())
def test_dumped_config_loads_equal(tree: dict[str, object], comments: bool) -> None:
    with untraced():
        config = Config.model_validate(tree)
        assert load(dump_config(config, comments)) == config


def test_dump_with_comments_describes_every_field() -> None:
    text = " ".join(dump_config(load(BASE), comments=True).replace("#", " ").split())
    sections: list[type[Section]] = [*KINDS.values(), *(type(section) for _, section in load(BASE))]
    for section in sections:
        for name, field in section.model_fields.items():
            assert field.description, f"{section.__name__}.{name} has no description"
            assert " ".join(field.description.split()) in text, f"{section.__name__}.{name} is missing in the dump"


@pytest.mark.parametrize(
    ("path", "label"), [("a/b.tsv", "b.tsv"), ("https://a.example/b.tsv?c=d", "b.tsv"), ("a/b/", "b"), (".", ".")]
)
def test_path_source_is_named_by_its_path(path: str, label: str) -> None:
    assert TrainPath(path=path).label == label


# --- errors -------------------------------------------------------------------------------------
