"""The commands for recipes: `nmt adapt`, `sweep`, `rerank`, `distil`, `back-translate` and `bidirectional`."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import filterfalse
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from nmt.cli.app import app
from nmt.cli.options import (
    BeamOption,
    ConfigOption,
    DataOption,
    FollowOption,
    FormatOption,
    FromOption,
    PenaltyOption,
    PrecisionOption,
    RecipeOutput,
    RunsOption,
    SearchOption,
    SetOption,
    ToOption,
    TranslatingOption,
    configs,
    option,
    runs,
)
from nmt.cli.teacher import chat_options, with_teacher
from nmt.console import show
from nmt.errors import ConfigError

FAILED = 1  # exit status if a run failed


@app.command()
def adapt(
    text: Annotated[
        list[str],
        typer.Argument(
            metavar="TEXT", help="File with both languages, such as a TMX, or a folder of these; or a file for each."
        ),
    ],
    start: Annotated[
        str, option("--from", "Run to adapt: trained, or imported by nmt import.", "RUN", autocompletion=runs)
    ],
    output: Annotated[
        Path | None, option("--output", "Run directory to write.  [default: runs/RUN-adapted]", "DIR")
    ] = None,
    minutes: Annotated[float, option("--minutes", "Training time.", "M", min=0.1)] = 10,
    beside: Annotated[
        list[str], option("--beside", "Other text to train on as well, so that it is not forgotten.", "F...")
    ] = [],
    general: Annotated[list[str], option("--general", "Test set of other text, to compare on as well.", "F...")] = [],
    like: Annotated[
        list[str],
        option("--like", "New language of M2M-100 or NLLB, and a related one that it has; may be repeated.", "NEW=OLD"),
    ] = [],
    overrides: SetOption = [],
) -> None:
    """Adapt a run to text of your own.

    Writes a configuration with the settings of configs/adapt.yaml, then shows and runs nmt prepare, train and compare.
    300 pairs of the text (at most a tenth) are held out to select the weights, and 300 as the test set mine, on which
    RUN and the adapted run are compared. The directory of the adapted run has the configuration and the data directory
    in adapt/.

    TEXT is anything that data.train reads: TMX, XLIFF, PO, TSV, CSV, JSON Lines or Parquet, a folder or a pattern in
    quotes, or two files with a sentence per line whose names end in their languages, such as mine.de and mine.en.

    A model forgets other text while it learns yours. With --beside, two of three pairs that it learns are other text,
    best a large public corpus; beside a new language, all pairs count alike, so give a few thousand. --general names a
    test set of other text, also scored at each validation.

    A run with several directions learns those of the languages of TEXT, or with --set 'data.directions=[de-en]' only
    these. With --like tyv_Cyrl=kaz_Cyrl, a run of M2M-100 or NLLB learns a new language, in both directions.

    If interrupted, the same command continues; the exit status is then 75. With other settings, it needs another
    --output.

    \b
    Examples:
      nmt adapt --from runs/opus memory.tmx
      nmt adapt --from runs/opus mine.de mine.en --minutes 30 --output runs/mine
      nmt adapt --from runs/opus memory.tmx --beside tatoeba.de tatoeba.en --general news.de news.en
      nmt adapt --from runs/nllb train.tyv_Cyrl train.rus_Cyrl --like tyv_Cyrl=kaz_Cyrl --minutes 600
    """
    from nmt.recipes.adapt import adapt as run_recipe

    raise typer.Exit(run_recipe(start, text, output, minutes, beside, general, like, overrides))


@app.command()
def sweep(
    config: Annotated[str, typer.Argument(metavar="FILE", help="Config, as for prepare; without --grid, a study.")],
    grid: Annotated[
        list[str],
        option("--grid", "Setting and its values; may be repeated.", "KEY=A,B"),
    ] = [],
    overrides: SetOption = [],
    data: DataOption = None,
    directory: Annotated[
        Path | None, option("--dir", "Directory of the runs.  [default: runs/sweep-CONFIG]", "DIR")
    ] = None,
    jobs: Annotated[int | None, option("--jobs", "Number of runs at a time.  [default: 1]", "N", min=1)] = None,
    devices: Annotated[str | None, option("--devices", "GPUs to use, one run at a time on each.", "0,1")] = None,
    format_: FormatOption = "text",
) -> None:
    """Train all combinations of settings and compare the runs.

    Each combination is trained by `nmt train` in its own process and run directory, named after its values, such as
    runs/sweep-sample/seed=2,peak_lr=3e-4. The output is in logs/. Values are YAML, as for --set; a value with a comma
    needs quotes or brackets. All combinations are checked before training starts.

    The same command continues a sweep: finished runs are kept, stopped runs are resumed, and the others are started. On
    Ctrl-C and SIGTERM, each run finishes its update and saves, and the exit status is 75. If a run fails, the others
    continue, and the exit status is 1.

    The config's data directory is prepared if it does not exist. If the grid changes the text or the tokenizer (data.…,
    tokenizer.…), each combination of these settings has its own data directory in the directory of the sweep.

    The table shows, best run first, the best score on the development set and the weights that nmt translate would use.
    The score is BLEU, or accuracy for classifiers, or perplexity (lower is better) for runs that write no text; it is
    chrF for all runs if the references of one have too few four-grams for BLEU, as terms do. With several values of
    training.seed, means and standard deviations over the seeds are shown. If training.max_minutes ended runs, so that
    they have different numbers of steps, a note says so. Test sets are not used, so that they remain unbiased: evaluate
    only the winner on them. sweep.tsv contains the same table.

    Without --grid, FILE is a study, a YAML file with the keys config (the config of all runs), set (changed settings),
    grid (a list of values for each setting), and optionally halving and compare. Runs that differ only in their seed
    are an arm. halving: {updates: N, factor: 2, keep: 2} compares the arms by their mean score on the development set
    after N updates, stops all but the best half of them, continues the others until 2 N updates, and so on, until keep
    arms are left, which are trained to the end. compare: SPLIT compares these arms on a test set, as nmt compare
    --group does. The table shows when and why an arm was eliminated.

    With --jobs N, the cores are divided among the runs (OMP_NUM_THREADS, unless it is set).

    \b
    Examples:
      nmt sweep sample.yaml --grid training.peak_lr=3e-4,7e-4 --grid training.seed=1,2,3
      nmt sweep multi30k.yaml --set training.max_steps=4000 --grid tokenizer.vocab_size=4000,8000 --jobs 2
      nmt sweep mine.yaml --grid model.norm=pre,post --devices 0,1 --dir runs/norms
      nmt sweep study.yaml --jobs 2 --format latex
    """
    names = [] if devices is None else [name.strip() for name in devices.split(",")]
    if not all(names):
        raise ConfigError(f"--devices {devices}: must be GPU indices, such as 0,1")
    from nmt.recipes.sweep import sweep as run_stage
    from nmt.recipes.sweep_plan import SweepOptions

    request = SweepOptions(config, grid, overrides) if grid else SweepOptions.of_study(config)
    request = replace(request, data=data, directory=directory or request.directory, jobs=jobs or 1, devices=names)
    rows = run_stage(request, format_)
    if any(row.state == "failed" for row in rows):
        raise typer.Exit(FAILED)


N_BEST = 20
"""Default number of candidates per line."""


@app.command()
def rerank(
    reverse: Annotated[
        list[Path],
        option(
            "--reverse",
            "Run of the opposite direction; repeat for an ensemble.",
            "DIR",
            autocompletion=runs,
        ),
    ],
    source: Annotated[Path, option("--src", "Source text.", "F")],
    run: RunsOption = [],
    rescore: Annotated[
        list[Path],
        option(
            "--rescore",
            "Also use the scores of this run of the same direction; may be repeated.",
            "DIR",
            autocompletion=runs,
        ),
    ] = [],
    lm: Annotated[
        list[Path],
        option(
            "--lm", "Also use the scores of this target language model; may be repeated.", "DIR", autocompletion=runs
        ),
    ] = [],
    output: Annotated[str | None, option("--output", "File to write.  [default: standard output]", "F|-")] = None,
    weights_file: Annotated[
        Path | None, option("--weights-file", "Tuned weights to read, or to write with --tune.", "F")
    ] = None,
    tune: Annotated[bool, option("--tune", "Tune the weights on --src and --ref.")] = False,
    reference: Annotated[Path | None, option("--ref", "With --tune: translations of --src, line by line.", "F")] = None,
    metric: Annotated[
        Literal["bleu", "chrf"] | None,
        option("--metric", "With --tune: metric to maximize.  [default: bleu, or chrf for short references]"),
    ] = None,
    n_best: Annotated[
        int | None,
        option("--n-best", f"Candidates per line; at most the beam size.  [default: {N_BEST}]", "N", min=1),
    ] = None,
    n_best_file: Annotated[
        Path | None,
        option("--n-best-file", "Candidates written by nmt translate --n-best.", "F"),
    ] = None,
    to: ToOption = None,
    from_: FromOption = None,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    overrides: SearchOption = [],
    precision: PrecisionOption = "auto",
) -> None:
    """Translate with noisy-channel reranking.

    Each line is translated into N candidates, and the candidate with the highest weighted sum of these features is
    written (Yee et al., 2019). Blank lines stay blank.

    \b
      direct   score of the search; its weight is always 1
      channel  log-probability of the source given the candidate, by --reverse
      NAME     log-probability of the candidate, by --rescore DIR/NAME or --lm DIR/NAME
      length   number of pieces of the candidate

    Log-probabilities are divided by the length penalty, like scores of the search; by default they are means per piece.
    All weights are 1, except that of length, which is 0, unless --weights-file contains tuned weights.

    --tune tunes the weights on a development set, --src and --ref: it tries random weights, improves the best of them
    one weight at a time, and writes those with the highest BLEU or chrF to --weights-file (by default BLEU, but chrF if
    the references have too few four-grams for it, as terms do). The same command finds the
    same weights. For comparison, it also shows the scores of the ranking of the search and of the best possible choice
    of candidates (the oracle).

    The beam size is at least N unless --beam is given. --n-best-file F reads candidates written by nmt translate
    --n-best; --length-penalty must then be the one used for F.

    \b
    Examples:
      nmt rerank --run runs/de-en --reverse runs/en-de --tune --src dev.de --ref dev.en --weights-file weights.json
      nmt rerank --run runs/de-en --reverse runs/en-de --src test.de --weights-file weights.json --output test.en
      nmt rerank --run runs/de-en --reverse runs/en-de --rescore runs/de-en-2 --src test.de --n-best 50
      nmt rerank --run runs/de-en --reverse runs/en-de --lm runs/lm-en --src test.de --n-best 50
    """
    from nmt.cli.defaults import resolve_models, search_settings
    from nmt.console import say, show
    from nmt.files.write import open_output, refuse_overwriting
    from nmt.recipes.rerank import Reranking, Runs, read_weights, rerank_file, tune_weights
    from nmt.runs.model import ModelRef

    inputs = [source, reference, n_best_file]
    if tune:
        refuse_overwriting([weights_file], inputs)
    else:
        refuse_overwriting([output], [*inputs, weights_file])
    model = ModelRef(resolve_models(run, None), to=to, source=from_)
    loaded = Runs.load(model, reverse, rescore, lm, precision)
    config = loaded.direct.config
    search = search_settings(config, beam, length_penalty, overrides)
    n_candidates = None if n_best_file is not None else n_best or N_BEST
    if n_candidates is not None and beam is None and search.beam == config.search.beam:
        search = search.model_copy(update={"beam": max(search.beam, n_candidates)})
    request = Reranking(loaded, search, source, n_candidates, n_best_file)
    if tune and reference is not None and weights_file is not None:
        with open_output(weights_file) as file:
            content, lines = tune_weights(request, reference, metric)
            file.write(f"{json.dumps(content, indent=1)}\n".encode())
        show(*lines)
        say(f"{weights_file}: written")
        return
    features = loaded.features(search)
    feature_weights = tuple(feature.default for feature in features)
    if weights_file is not None:
        feature_weights = read_weights(weights_file, features)
    rerank_file(request, feature_weights, output or "-")


@app.command()
@with_teacher()
def distil(
    output: RecipeOutput,
    chat: dict[str, Any],
    teacher: Annotated[
        list[Path],
        option("--teacher", "Run that translates; repeat for an ensemble.", "RUN", autocompletion=runs),
    ] = [],
    to: ToOption = None,
    from_: FromOption = None,
    student: Annotated[
        Literal["tiny", "small"] | None,
        option("--student", "Size of a student with its own tokenizer, as in configs/student-SIZE.yaml."),
    ] = None,
    mono: Annotated[
        Path | None,
        option("--mono", "Text in the source language to translate instead, one sentence per line.", "FILE"),
    ] = None,
    test_src: Annotated[Path | None, option("--test-src", "Source of a test set for a student of --mono.", "F")] = None,
    test_ref: Annotated[Path | None, option("--test-ref", "Reference of that test set.", "F")] = None,
    data: Annotated[
        Path | None,
        option("--data", "Data directory to translate.  [default: the teacher's]", "DIR"),
    ] = None,
    n_best: Annotated[
        int,
        option("--n-best", "Use the best of K translations by similarity to the reference.", "K", min=1),
    ] = 1,
    nearest: Annotated[
        Literal["chrf", "bleu"], option("--nearest", "Sentence-level similarity metric for --n-best.")
    ] = "chrf",
    with_originals: Annotated[
        bool,
        option("--with-originals", "Also train on the references; with --mono, first on the corpora of the config."),
    ] = False,
    beam: Annotated[
        int | None,
        option("--beam", "Beam size of the teacher.  [default: its config's]", "N", min=1),
    ] = None,
    search: TranslatingOption = [],
    config: Annotated[
        str | None,
        option(
            "--config",
            "Model, training and search settings of the student; with --teacher-url, also its data.  [default: the "
            "teacher's]",
            "FILE",
            autocompletion=configs,
        ),
    ] = None,
    overrides: SetOption = [],
    train: FollowOption = False,
) -> None:
    """Translate text with a teacher, to train a smaller student.

    Sequence-level knowledge distillation (Kim and Rush, 2016): a teacher (a run or an ensemble) translates the training
    text of its data directory, or any text in the source language (--mono), and a student is trained on the
    translations. Because its translations are more regular than human ones, a smaller or faster student can learn them
    well. --n-best K uses, of the teacher's K best translations, the one that is most similar to the reference
    (sequence-level interpolation).

    --student tiny or small chooses a small model with its own joint tokenizer, also for a teacher that was
    imported (`nmt import`). Without it, the student has the tokenizer and, unless --config or --set change it, the
    model of the teacher.

    Writes to --output the translations (distilled.LANG), statistics (report.json) and the student's configuration
    (config.yaml), which is that of the teacher with the changes of --config and --set. The development and test sets
    stay the same; of --mono, up to 1,000 lines become the development set. Prints the commands that follow and, with
    --train, runs them: prepare, train and evaluate. A table then compares student and teacher: scores, size, and
    sentences per second, also in int8 if CTranslate2 is installed.

    With --teacher-url, the teacher is a language model on any server with an API for chat completions
    (docs/recipes.md#distil-a-language-model). The key is read from the environment variable OPENAI_API_KEY. --config
    gives the direction, the text, and the development and test sets; if its development set is held out of the training
    text, that of a student of --mono is held out of --mono. The other settings are those of --student or --config.
    Answers are checked; a line without a good one is left blank and counted. --dry-run shows the numbers of tokens and
    their cost.

    If interrupted, the same command continues with the current chunk of 4,096 lines, and asks a language model for no
    line twice. If requests to a language model or training are interrupted, the exit status is 75.

    \b
    Examples:
      nmt distil --teacher runs/opus --student tiny --mono text.de --output data/tiny --train
      nmt distil --teacher runs/big-de-en --output data/distilled/small --set model.decoder_layers=2
      nmt distil --teacher runs/a --teacher runs/b --n-best 5 --with-originals --output data/distilled/ab --train
      nmt distil --teacher runs/big-de-en --beam 8 --config small.yaml --output data/distilled/small
      nmt distil --teacher-url http://localhost:8000/v1 --teacher-model NAME --config my.yaml --output data/x --dry-run
    """
    from nmt.chat.teacher import ChatTeacher
    from nmt.cli.defaults import search_settings
    from nmt.config.load import load_config
    from nmt.layout import DataDir
    from nmt.recipes.directory import is_of_text
    from nmt.recipes.distil import Distillation
    from nmt.recipes.distil import distil as run_recipe
    from nmt.recipes.teachers import RunTeacher, Teacher, run_config
    from nmt.runs.model import ModelRef

    test = None if test_src is None or test_ref is None else (test_src, test_ref)
    student_config = f"student-{student}.yaml" if student else None
    options = chat_options(chat)
    translating: Teacher
    if options is None:
        model = ModelRef(tuple(teacher), to=to, source=from_)
        student_config = student_config or config
        data_config = run_config(model)
        changes = [f"search.{setting}" for setting in search]
        translating = RunTeacher(model, search_settings(data_config, beam, None, changes), n_best)
    else:
        data_config = load_config(str(config or student_config), [*filter(is_of_text, overrides)])
        overrides = [*filterfalse(is_of_text, overrides)]
        translating = ChatTeacher(options, data_config.data, data_config.data.direction)
    request = Distillation(
        teacher=translating,
        config=data_config,
        output=output,
        data=data,
        nearest=nearest,
        with_originals=with_originals,
        mono=mono,
        test=test,
        student=student_config,
        own_tokenizer=student is not None or options is not None,
        overrides=overrides,
        run_commands=train,
    )
    status = run_recipe(request)
    if train and not (status or chat["dry_run"]):
        from nmt.recipes.distil import compared

        following = load_config(output / "config.yaml")
        prepared = DataDir(following.data.directory)
        show(*compared(request, following.run_directory, prepared))
    raise typer.Exit(status)


@app.command("back-translate")
@with_teacher()
def back_translate(
    mono: Annotated[
        Path,
        option(
            "--mono",
            "Text in the target language, one sentence per line; .gz, .bz2, .xz and .zst are decompressed.",
            "FILE",
        ),
    ],
    output: RecipeOutput,
    chat: dict[str, Any],
    reverse: Annotated[
        Path | None, option("--reverse", "Run that translates from target to source.", "RUN", autocompletion=runs)
    ] = None,
    to: ToOption = None,
    from_: FromOption = None,
    how_: Annotated[Literal["sample", "beam", "greedy"], option("--how", "How to search for translations.")] = "sample",
    search: TranslatingOption = [],
    config: Annotated[
        str | None,
        option(
            "--config",
            "Config with the authentic corpora.  [default: the config of --reverse, in the opposite direction]",
            "FILE",
            autocompletion=configs,
        ),
    ] = None,
    overrides: SetOption = [],
    upsample: Annotated[
        int, option("--upsample", "Repeat authentic pairs N times in the training text.", "N", min=1)
    ] = 1,
    train: FollowOption = False,
) -> None:
    """Create synthetic training pairs from monolingual text.

    Back-translation (Sennrich et al., 2016): a run of the opposite direction, or a language model, translates target
    text, and the next model is trained on the resulting pairs in addition to the authentic ones.

    --how sample samples translations from the model. With a good reverse run, the greater variety of sources improves
    the result (Edunov et al., 2018). With little authentic text, samples contain too many errors, and beam or greedy
    search is better; greedy search is faster.

    Line n of the synthetic source is the translation of line n of the text. Lines that are blank, too long
    (data.max_chars), contain control characters, or occur in a development or test set are left blank and counted, as
    are translations that occur in a development or test set. If the development set was held out of the
    training text (a number in data.valid), the authentic pairs are those of the prepared text, which has no side in
    common with it.

    Authentic and synthetic pairs have the same weight. Start with as many lines as there are authentic pairs (head -n,
    shuf -n), or balance more lines with --upsample (data.train.N.repeat).

    Writes to --output the translations (synthetic.LANG), statistics (report.json) and a configuration with all corpora
    (config.yaml). Prints the commands that follow and, with --train, runs them: prepare (with the reverse run's
    tokenizer, unless that was imported), train and evaluate.

    With --teacher-url, a language model translates, in the direction opposite to that of --config; see nmt distil. Its
    answers are checked, and lines without a good one are left blank and counted.

    If interrupted, the same command continues with the current chunk of 4,096 lines, and asks a language model for no
    line twice. If requests to a language model or training are interrupted, the exit status is 75.

    \b
    Examples:
      nmt train --config mine.yaml --set data.direction=en-de
      nmt back-translate --reverse runs/mine-en-de --mono news.en --config mine.yaml --output data/back/news
      nmt back-translate --reverse runs/mine-en-de --mono news.en --how greedy --upsample 2 --output data/back/n --train
    """
    from nmt.chat.teacher import ChatTeacher
    from nmt.cli.defaults import search_settings
    from nmt.config.load import load_config
    from nmt.recipes.back_translate import SEARCHES, BackTranslation
    from nmt.recipes.back_translate import back_translate as run_recipe
    from nmt.recipes.directory import is_of_text
    from nmt.recipes.teachers import RunTeacher, Teacher, run_config
    from nmt.runs.model import ModelRef

    options = chat_options(chat)
    reverse_config = None
    translating: Teacher
    if options is not None:
        forward = load_config(str(config), [*filter(is_of_text, overrides)]).data
        translating = ChatTeacher(options, forward, f"{forward.tgt}-{forward.src}")
    else:
        assert reverse is not None, "refused"
        model = ModelRef((reverse,), to=to, source=from_)
        reverse_config = run_config(model)
        changes = [*SEARCHES[how_], *(f"search.{setting}" for setting in search)]
        translating = RunTeacher(model, search_settings(reverse_config, None, None, changes))
    request = BackTranslation(
        reverse=translating,
        reverse_config=reverse_config,
        mono=mono,
        output=output,
        config=config,
        overrides=overrides,
        upsample=upsample,
        run_commands=train,
    )
    raise typer.Exit(run_recipe(request))


@app.command()
def bidirectional(
    first_length: Annotated[
        str,
        option(
            "--both",
            "Length of the run in both directions, in steps (6000) or minutes (30m).",
            "LENGTH",
        ),
    ],
    second_length: Annotated[
        str,
        option("--one", "Length of the run in one direction.", "LENGTH"),
    ],
    config: ConfigOption = "base.yaml",
    overrides: SetOption = [],
    name: Annotated[str | None, option("--name", "Name of the runs.  [default: the config's]", "NAME")] = None,
) -> None:
    """Train in both directions, then continue in one.

    Bidirectional pre-training (Bi-SimCut; Gao et al., 2022): one model is trained on a corpus in both directions, which
    doubles the text, and then only in the direction of the config, with a new learning rate schedule. The data
    directory must exist and have a joint vocabulary.

    The runs are runs/NAME-both and runs/NAME-both-DIRECTION, where NAME is by default that of the config. Both are
    trained as by nmt train, and --set applies to both, but cannot change limits. With a length in minutes, training
    also ends at the config's training.max_steps. Linear and cosine schedules need a length in steps, because minutes
    would cut them short.

    If interrupted, the same command continues: it skips a finished stage and resumes a stopped one. With --set
    data.direction=en-de after de-en, the existing run in both directions is reused. Ctrl-C and SIGTERM are handled as
    by nmt train, with exit status 75.

    \b
    Examples:
      nmt bidirectional --config multi30k.yaml --both 8000 --one 8000
      nmt bidirectional --config multi30k.yaml --both 8000 --one 8000 --set data.direction=en-de
      nmt bidirectional --config mine.yaml --both 60m --one 30m --set training.seed=2 --name mine-2
    """
    from nmt.recipes.bidirectional import Bidirectional
    from nmt.recipes.bidirectional import bidirectional as run_recipe

    raise typer.Exit(run_recipe(Bidirectional(config, first_length, second_length, overrides, name)))
