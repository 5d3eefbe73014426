"""The cases of bad_inputs.py: what is done to the folder, and the command that is then given."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """Bad input: lines of shell that make it, the command that gets it, and how that must end."""

    name: str
    setup: str
    command: str
    status: int = 2
    n_lines: int | None = 1
    """Lines on standard error: one for each problem, None for any number."""
    said: str | None = None
    """A pattern that standard error must hold."""
    writes: bool = False
    """Whether the command may leave something behind."""


# fmt: off
CONFIG, PREPARE, TRAIN = (f"nmt {command} --config c.yaml" for command in ("config", "prepare", "train"))
# A new data directory, so that what is there already does not make up for what is bad.
PREPARE_NEW = f"{PREPARE} --data new"
TRAIN_NEW = f"{TRAIN} --run runs/new"
RESUME = "nmt train --resume --run runs/tiny"
MORE = f"{RESUME} --set training.max_steps=6"
TRANSLATE = "nmt translate --run runs/tiny --input text/test.aa"
EVALUATE = "nmt evaluate --run runs/tiny"
FILES = "nmt evaluate --hyp hyp --ref text/test.bb"
# Put a file or a directory of the run into `victim`, and a link in its place; where there is none, a file.
LINK_AWAY = """mkdir victim
away() { mv runs/tiny/$1 victim 2> /dev/null || echo mine > victim/$(basename $1)
         ln -s "$PWD/victim/$(basename $1)" runs/tiny/$1; }
"""
PIPE, ZERO = (f"f() {{ rm -f $1; {command} $1; }}; f" for command in ("mkfifo", "ln -s /dev/zero"))
MUCH_TEXT = """seq 1000000 1300000 > text/more.aa; rev text/more.aa > text/more.bb
config train.aa more.aa; config train.bb more.bb"""
WHILE_IT_PREPARES = f"""{PREPARE_NEW} &
while [ ! -s .new.partial/cleaned.aa ]; do sleep 0.1; done; """

USAGE = (
    Case("no arguments", "", "nmt", n_lines=None),
    Case("unknown command", "", "nmt trian"),
    Case("unknown option", "", "nmt train --confg c.yaml"),
    Case("an option without its value", "", "nmt train --config"),
    Case("a value of the wrong type", "", "nmt translate --beam many"),
)
CONFIGS = (
    Case("config: none of that name", "", "nmt config --config no.yaml"),
    Case("config: empty", "> c.yaml", CONFIG),
    Case("config: a list", "echo '- a' > c.yaml", CONFIG),
    Case("config: not YAML", "echo 'data: [' > c.yaml", CONFIG),
    Case("config: a tab", "printf 'data:\\n\\tdirection: aa-bb\\n' > c.yaml", CONFIG),
    Case("config: binary", "head -c 3000 $last/weights.safetensors > c.yaml", CONFIG),
    Case("config: NUL bytes", "printf 'data:\\0\\0\\n' >> c.yaml", CONFIG),
    Case("config: UTF-16", "iconv -t UTF-16 c.yaml > u; mv u c.yaml", CONFIG),
    Case("config: a directory", "rm c.yaml; mkdir c.yaml", CONFIG),
    Case("config: no permission", "chmod 000 c.yaml", CONFIG),
    Case("config: a mistyped key", "config warmup_steps warmup_step", CONFIG),
    Case("config: a value of the wrong type", "config 'max_steps: 4' 'max_steps: four'", CONFIG),
    Case("config: three problems", "config 'update_tokens: 300' 'seed: x'; config 'n_heads: 2' 'n_heads: 3'",
         f"{CONFIG} --set search.beem=3", n_lines=3),
    Case("config: an unknown section", "echo 'trainnig: {seed: 1}' >> c.yaml", CONFIG),
    Case("config: a key given twice", "echo 'search: {beam: 3}' >> c.yaml", CONFIG),
    Case("config: an alias bomb", r"""{ echo 'data: {root: {a0: &a0 [x, x]'; for i in $(seq 40); do
         echo ", a$i: &a$i [*a$((i-1)), *a$((i-1))]"; done; echo '}}'; } > c.yaml""", CONFIG, n_lines=4),
    Case("config: nested 100,000 deep", "head -c 100000 /dev/zero | tr '\\0' '[' > c.yaml", CONFIG),
    Case("--set: no value", "", f"{CONFIG} --set training.seed"),
    Case("--set: no key", "", f"{CONFIG} --set =3"),
    Case("--set: not YAML", "", f"{CONFIG} --set 'training.seed=['"),
    Case("--set: leads nowhere", "", f"{CONFIG} --set data.train.7.name=x"),
    Case("config: onto a full disk", "", f"{CONFIG} > /dev/full"),
    Case("config: standard output closed", "", f"{CONFIG} >&-", 0, 0),
    Case("config: nobody reads", "", f"{CONFIG} | true; exit ${{PIPESTATUS[0]}}", 141, 0),
)
TEXT = (
    Case("text: missing", "rm text/train.bb", PREPARE_NEW),
    Case("text: empty on one side", "> text/train.bb", PREPARE_NEW),
    Case("text: empty on both sides", "> text/train.aa; > text/train.bb", PREPARE_NEW),
    Case("text: a line more on one side", "echo more >> text/train.bb", PREPARE_NEW),
    Case("text: binary", "cp $last/weights.safetensors text/train.aa", PREPARE_NEW),
    Case("text: not UTF-8", "flip text/train.aa 100", PREPARE_NEW),
    Case("text: UTF-16", "iconv -t UTF-16 text/train.aa > u; mv u text/train.aa", PREPARE_NEW),
    Case("text: NUL bytes in every line", "sed -i 's/$/\\x00/' text/train.aa", PREPARE_NEW),
    Case("text: lines end in CR alone",
         "for x in aa bb; do tr '\\n' '\\r' < text/train.$x > u; mv u text/train.$x; done", PREPARE_NEW),
    Case("text: one line of 10 MB", "for x in aa bb; do head -c 10000000 /dev/zero | tr '\\0' x > text/train.$x; done",
         PREPARE_NEW),
    Case("text: only blank lines", "for x in aa bb; do yes '' | head -n 50 > text/train.$x; done", PREPARE_NEW),
    Case("text: both sides the same", "cp text/train.aa text/train.bb", PREPARE_NEW),
    Case("text: a directory", "rm text/train.aa; mkdir text/train.aa", PREPARE_NEW),
    Case("text: no permission", "chmod 000 text/train.aa", PREPARE_NEW),
    Case("text: .gz that is no gzip", "mv text/train.aa text/train.aa.gz; config train.aa train.aa.gz", PREPARE_NEW),
    Case("text: .gz cut off", "gzip text/train.aa; truncate -s -20 text/train.aa.gz; config train.aa train.aa.gz",
         PREPARE_NEW),
    Case("text: gzip without .gz", "gzip text/train.aa; mv text/train.aa.gz text/train.aa", PREPARE_NEW),
    Case("development set: empty", "> text/dev.aa; > text/dev.bb", PREPARE_NEW),
    Case("development set: only blank lines", "for x in aa bb; do yes '' | head -n 5 > text/dev.$x; done", PREPARE_NEW),
    Case("test set: missing", "rm text/test.aa", PREPARE_NEW),
    Case("hub: offline", "config 'files: {aa: train.aa, bb: train.bb}' 'hub: a/b\\n      paths: [x.jsonl]'",
         PREPARE_NEW),
)
PREPARING = (
    Case("prepare: vocabulary larger than the text gives", "", f"{PREPARE_NEW} --set tokenizer.vocab_size=20000",
         0, None, writes=True),
    Case("prepare: vocabulary too small for the bytes", "", f"{PREPARE_NEW} --set tokenizer.vocab_size=100"),
    Case("prepare: into the place of a file", "> new", PREPARE_NEW),
    Case("prepare: below a file", "> new", f"{PREPARE} --data new/data"),
    Case("prepare: into someone's folder", "mkdir new; echo mine > new/thesis.txt", PREPARE_NEW),
    Case("prepare: into a read-only folder", "mkdir r; chmod 500 r", f"{PREPARE} --data r/new"),
    Case("prepare: file size limit", "", f"ulimit -f 4; {PREPARE_NEW}"),
    Case("prepare: tokenizer of nothing", "", f"{PREPARE_NEW} --tokenizer-from nowhere"),
    Case("prepare: manifest damaged", "flip data/manifest.json 40", PREPARE),
)
TRAINING = (
    Case("train: no data directory", "", f"{TRAIN_NEW} --data nowhere"),
    Case("train: data directory is a file", "> new", f"{TRAIN_NEW} --data new"),
    Case("train: data of other languages", "sed 's/bb/cc/g' c.yaml > cc.yaml", "nmt train --config cc.yaml --run r"),
    Case("train: manifest damaged", "flip data/manifest.json 40", TRAIN_NEW),
    Case("train: manifest empty", "> data/manifest.json", TRAIN_NEW),
    Case("train: manifest is a list", "echo '[]' > data/manifest.json", TRAIN_NEW),
    Case("train: manifest of another version", "sed -i 's/\"format\": [0-9]*/\"format\": 99/' data/manifest.json",
         TRAIN_NEW),
    Case("train: ids cut off", "truncate -s -10 data/train.aa.ids.npy", TRAIN_NEW),
    Case("train: ids damaged", "flip data/train.aa.ids.npy 301", TRAIN_NEW),
    Case("train: ends of lines damaged", "flip data/train.aa.ends.npy 301", TRAIN_NEW),
    Case("train: development text damaged", "flip data/valid.bb 20", TRAIN_NEW),
    Case("train: tokenizer missing", "rm data/tokenizer/joint.model", TRAIN_NEW),
    Case("train: tokenizer damaged", "flip data/tokenizer/joint.model 3000", TRAIN_NEW),
    Case("train: data without permission", "chmod 000 data/train.aa.ids.npy", TRAIN_NEW),
    Case("train: the run exists", "", TRAIN),
    Case("train: the run directory is a file", "> runs/new", TRAIN_NEW),
    Case("train: the run directory is where you are", "mkdir here",
         "cd here; nmt train --config ../c.yaml --data ../data --run ."),
    Case("train: into a read-only folder", "mkdir r; chmod 500 r", f"{TRAIN} --run r/new"),
    Case("train: below a file", "> r", f"{TRAIN} --run r/new"),
    Case("train: file size limit at the start", "", f"ulimit -f 1; {TRAIN_NEW}", n_lines=2),
    Case("train: file size limit at the first checkpoint", "", f"ulimit -f 64; {TRAIN_NEW}", 2, None, writes=True),
    Case("train: standard error closed", "", f"{TRAIN_NEW} 2>&-", 0, None, writes=True),
    Case("train: standard error on a full disk", "", f"{TRAIN_NEW} 2> /dev/full", 0, None, writes=True),
    Case("train: cuda without a GPU", "", f"{TRAIN_NEW} --set training.device=cuda"),
    Case("train: absurd learning rate", "", f"{TRAIN_NEW} --set training.schedule=constant --set training.peak_lr=1e6",
         0, None, writes=True),
    Case("train: infinite learning rate", "", f"{TRAIN_NEW} --set training.factor=.inf"),
    Case("train: max_tokens too small", "", f"{TRAIN_NEW} --set training.max_tokens=20"),
    Case("train: max_tokens smaller than a pair", "",
         f"{TRAIN_NEW} --set training.max_tokens=9 --set data.max_pieces=8"),
    Case("train: model too large for this memory", "",
         f"{TRAIN_NEW} --set model.d_model=1000000 --set model.d_ff=1000000 --set model.encoder_layers=1000"),
    Case("train: --stop-after a negative time", "", f"{TRAIN_NEW} --stop-after -1"),
)
TUNING = (
    Case("tuning: no run to begin with", "", f"{TRAIN_NEW} --init-from runs/no"),
    Case("tuning: a folder that is no run", "", f"{TRAIN_NEW} --init-from text"),
    Case("tuning: damaged weights", "flip $last/weights.safetensors 3000; flip $first/weights.safetensors 3000; "
         "rm -r runs/tiny/checkpoints/average", f"{TRAIN_NEW} --init-from runs/tiny"),
    Case("tuning: another model", "",
         f"{TRAIN_NEW} --init-from runs/tiny --set model.d_ff=128 --set model.encoder_layers=3", n_lines=2),
    Case("tuning: another tokenizer", f"{PREPARE_NEW} --set tokenizer.vocab_size=310",
         f"{TRAIN_NEW} --data new --init-from runs/tiny"),
    Case("tuning: the run itself", "", f"{TRAIN} --run runs/tiny --init-from runs/tiny"),
    Case("tuning: on a run that goes on", "", f"{RESUME} --init-from runs/tiny"),
    Case("tuning: all is frozen", "", f"{TRAIN_NEW} --set training.freeze=[embeddings,encoder,decoder]"),
    Case("tuning: an unknown part", "", f"{TRAIN_NEW} --set training.freeze=[head]"),
    Case("tuning: schedule_free with a schedule", "",
         f"{TRAIN_NEW} --set training.optimizer=schedule_free --set training.schedule=noam --set training.ema=0.9",
         n_lines=2),
    Case("tuning: both directions with two vocabularies", "", f"{TRAIN_NEW} --set tokenizer.joint=false "
         "--set model.tie_embeddings=target --set training.both_directions=true"),
    Case("tuning: BPE-dropout of 1", "", f"{TRAIN_NEW} --set training.src_bpe_dropout=1"),
    Case("translate: a moving average that is not there", "", f"{TRANSLATE} --weights ema"),
)
SWEEPS = (
    Case("sweep: no grid", "", "nmt sweep c.yaml"),
    Case("sweep: no such config", "", "nmt sweep no.yaml --grid training.seed=1"),
    Case("sweep: a mistyped key and a bad value", "", "nmt sweep c.yaml --grid training.sed=1 --grid model.n_heads=x",
         n_lines=2),
    Case("sweep: a key without values", "", "nmt sweep c.yaml --grid training.seed="),
    Case("sweep: a value twice", "", "nmt sweep c.yaml --grid training.seed=1,1"),
    Case("sweep: no data directory", "", "nmt sweep c.yaml --grid training.seed=1 --data nowhere"),
    Case("sweep: text that is not there", "rm text/train.bb; rm -r data", "nmt sweep c.yaml --grid training.seed=1,2",
         n_lines=None, said="nmt: nothing is trained: .*train.bb: no such file", writes=True),
    Case("sweep: into a run", "", "nmt sweep c.yaml --grid training.seed=1 --dir runs/tiny"),
    Case("sweep: into a read-only folder", "mkdir r; chmod 500 r",
         "nmt sweep c.yaml --grid training.seed=1 --dir r/new"),
)
RESUMING = (
    Case("resume: no run", "", "nmt train --resume --run runs/no"),
    Case("resume: another model", "", f"{RESUME} --set model.d_ff=128"),
    Case("resume: another seed and optimizer", "", f"{RESUME} --set training.seed=9 --set training.optimizer=adam",
         n_lines=2),
    Case("resume: another corpus", "echo 'x y' >> text/train.aa; echo 'z q' >> text/train.bb; "
         f"{PREPARE_NEW} --set data.max_ratio=9", f"{MORE} --data new"),
    Case("resume: data directory is gone", "mv data gone", MORE),
    Case("resume: newest checkpoint damaged", "flip $last/weights.safetensors 3000", MORE, 0, None,
         "trying the one before", writes=True),
    Case("resume: optimizer damaged", "flip $last/optimizer.safetensors 3000", MORE, 0, None, "trying the one before",
         writes=True),
    Case("resume: state damaged", "flip $last/state.json 100", MORE, 0, None, "trying the one before", writes=True),
    Case("resume: all checkpoints damaged", "flip $first/state.json 100; flip $last/state.json 100", MORE, n_lines=3),
    Case("resume: run.json damaged", "flip runs/tiny/run.json 20", MORE),
    Case("resume: run.json of another version", "sed -i 's/\"format\": [0-9]*/\"format\": 99/' runs/tiny/run.json",
         MORE),
    Case("resume: run.json is a directory", "rm runs/tiny/run.json; mkdir runs/tiny/run.json", MORE),
    Case("resume: config.yaml damaged", "flip runs/tiny/config.yaml 20", MORE),
    Case("resume: config.yaml missing", "rm runs/tiny/config.yaml", MORE),
    Case("resume: selected.json damaged", "flip runs/tiny/selected.json 5", RESUME, 0, None, writes=True),
    Case("resume: log.jsonl damaged", "flip runs/tiny/log.jsonl 5", MORE, 0, None, writes=True),
    Case("resume: log.jsonl is a directory", "rm runs/tiny/log.jsonl; mkdir runs/tiny/log.jsonl", MORE, n_lines=None,
         writes=True),
    Case("resume: no permission to write", "chmod 500 runs/tiny", MORE, n_lines=None),
    Case("resume: finished already", "", RESUME, 0, None, "finished at step 4"),
)
TRANSLATING = (
    Case("translate: no run of that name", "", "nmt translate --run runs/no"),
    Case("translate: no runs at all", "rm -r runs", "nmt translate"),
    Case("translate: run is a file", "> runs/new", "nmt translate --run runs/new"),
    Case("translate: run is empty", "mkdir runs/new", "nmt translate --run runs/new"),
    Case("translate: no checkpoint", "rm -r runs/tiny/checkpoints", TRANSLATE),
    Case("translate: a checkpoint there is not", "", f"{TRANSLATE} --checkpoint 3"),
    Case("translate: weights damaged", "for f in runs/tiny/checkpoints/*/weights*; do flip $f 3000; done", TRANSLATE),
    Case("translate: weights cut off", "for f in runs/tiny/checkpoints/*/weights*; do truncate -s 500 $f; done",
         TRANSLATE),
    Case("translate: run.json damaged", "flip runs/tiny/run.json 20", TRANSLATE),
    Case("translate: run.json with an unknown number format", "sed -i 's/float32/float31/' runs/tiny/run.json",
         TRANSLATE),
    Case("translate: run.json is 10,000 brackets", "head -c 10000 /dev/zero | tr '\\0' '[' > runs/tiny/run.json",
         TRANSLATE),
    Case("translate: selected.json is a list", "echo '[1]' > runs/tiny/selected.json", TRANSLATE),
    Case("translate: selected.json with a word for a step", "echo '{\"best_step\": \"x\"}' > runs/tiny/selected.json",
         TRANSLATE),
    Case("translate: selected.json damaged", "flip runs/tiny/selected.json 5", TRANSLATE),
    Case("translate: selected.json names a step there is not",
         "sed -i 's/\"best_step\": [0-9]*/\"best_step\": 77/; s/average/raw/' runs/tiny/selected.json", TRANSLATE),
    Case("translate: tokenizer damaged", "flip runs/tiny/tokenizer/joint.model 3000", TRANSLATE),
    Case("translate: config of another model", "sed -i 's/d_ff: 64/d_ff: 32/' runs/tiny/config.yaml", TRANSLATE),
    Case("translate: input missing", "", "nmt translate --run runs/tiny --input nowhere"),
    Case("translate: input is a directory", "", "nmt translate --run runs/tiny --input text"),
    Case("translate: input without permission", "chmod 000 text/test.aa", TRANSLATE),
    Case("translate: input binary", "cp $last/weights.safetensors in", "nmt translate --run runs/tiny --input in"),
    Case("translate: input not UTF-8", "printf 'ab\\nc\\377\\n' > in", "nmt translate --run runs/tiny < in"),
    Case("translate: not UTF-8, into a file", "printf 'ab\\nc\\377\\n' > in",
         "nmt translate --run runs/tiny --input in --output out"),
    Case("translate: input empty", "> in", "nmt translate --run runs/tiny --input in", 0, 0),
    Case("translate: a line of 100 kB", "head -c 100000 /dev/zero | tr '\\0' x > in; sed -i 's/xxx/x /g' in",
         "nmt translate --run runs/tiny --input in --beam 1 > /dev/null", 0, None),
    Case("translate: standard input closed", "", "nmt translate --run runs/tiny <&-"),
    Case("translate: output in no directory", "", f"{TRANSLATE} --output no/out"),
    Case("translate: output is a directory", "", f"{TRANSLATE} --output text"),
    Case("translate: output is read-only folder", "mkdir r; chmod 500 r", f"{TRANSLATE} --output r/out"),
    Case("translate: output on a full disk", "", f"{TRANSLATE} --output /dev/full"),
    Case("translate: standard output on a full disk", "", f"{TRANSLATE} > /dev/full"),
    Case("translate: file size limit", "for i in $(seq 60); do cat text/test.aa; done > in",
         "ulimit -f 1; nmt translate --run runs/tiny --input in --output out"),
    Case("translate: nobody reads", "", f"{TRANSLATE} | true; exit ${{PIPESTATUS[0]}}", 141, 0),
    Case("translate: standard output closed", "", f"{TRANSLATE} >&-", 2),
    Case("translate: n-best larger than the beam", "", f"{TRANSLATE} --n-best 9"),
    Case("translate: no such setting", "", f"{TRANSLATE} --set search.beem=3"),
    Case("translate: a setting of training", "", f"{TRANSLATE} --set training.seed=3"),
    Case("translate: groups that do not divide the beam", "", f"{TRANSLATE} --set search.diversity_groups=3"),
    Case("translate: no file of prefixes", "", f"{TRANSLATE} --prefix no"),
    Case("translate: too few prefixes", "echo a > in", f"{TRANSLATE} --prefix in --output out"),
    Case("translate: too many terms", "cat text/test.aa text/test.aa > in",
         f"{TRANSLATE} --constraints in --output out"),
    Case("translate: terms and samples", "cp text/test.aa in",
         f"{TRANSLATE} --constraints in --set search.sample=true --output out"),
    Case("translate: a picture of no known kind", "", f"{TRANSLATE} --attention a.gif --output out"),
    Case("translate: alignments on a full disk", "", f"{TRANSLATE} --alignments /dev/full --output out"),
    Case("translate: a run and a model", "", f"{TRANSLATE} --model runs/tiny"),
    Case("translate: int8 without its engine", "", f"{TRANSLATE} --int8"),
    Case("translate: a run twice and one that is none", "", f"{TRANSLATE} --run runs/tiny --run text"),
    Case("score: files that do not pair", "head -n 1 text/test.bb > in",
         "nmt score --run runs/tiny --src text/test.aa --ref in --output out"),
    Case("score: no such file", "", "nmt score --run runs/tiny --src text/test.aa --ref no"),
    Case("export: the directory is not empty", "", "nmt export --run runs/tiny --output text"),
    Case("export: no run", "", "nmt export --run text --output out"),
    Case("export: an exported folder that is damaged",
         "nmt export --run runs/tiny --output folder > /dev/null; flip folder/weights.safetensors 3000",
         "nmt translate --model folder --input text/test.aa"),
    Case("translate: a length penalty of 1000", "", f"{TRANSLATE} --length-penalty 1000"),
)
EVALUATING = (
    Case("evaluate: no such split", "", f"{EVALUATE} --split tset"),
    Case("evaluate: data directory is gone", "mv data gone", EVALUATE),
    Case("evaluate: test text damaged", "flip data/test.aa 5", EVALUATE),
    Case("evaluate: run.json names no data directory",
         "sed -i 's/\"data_dir\": .*/\"data_dir\": 5,/' runs/tiny/run.json",
         EVALUATE),
    Case("evaluate: other numbers of lines", "head -n 3 text/test.bb > hyp", FILES),
    Case("evaluate: translations empty", "> hyp", FILES),
    Case("evaluate: both empty", "> hyp; > text/test.bb", FILES),
    Case("evaluate: translations missing", "", FILES),
    Case("evaluate: references missing", "cp text/test.bb hyp; rm text/test.bb", FILES),
    Case("evaluate: translations are a directory", "mkdir hyp", FILES),
    Case("evaluate: translations not UTF-8", "cp text/test.bb hyp; flip hyp 9", FILES),
    Case("evaluate: --hyp without --ref", "", "nmt evaluate --hyp text/test.bb"),
    Case("evaluate: --hyp with --run", "", f"{FILES} --run runs/tiny"),
    Case("evaluate: --json with --samples", "", f"{EVALUATE} --json --samples 3"),
    Case("evaluate: unknown tokenizer", "", f"{EVALUATE} --tokenize moses"),
    Case("evaluate: output in no directory", "", f"{EVALUATE} --output no/out"),
    Case("evaluate: output is a directory", "", f"{EVALUATE} --output text"),
)
LISTING = (
    Case("runs: no such directory", "", "nmt runs nowhere"),
    Case("runs: no run there", "", "nmt runs text"),
    Case("runs: a run itself", "", "nmt runs runs/tiny"),
    Case("runs: a file", "", "nmt runs c.yaml"),
    Case("runs: damaged runs", "cp -r runs/tiny runs/b; flip runs/b/config.yaml 20; flip runs/tiny/run.json 20",
         "nmt runs",
         0, 0),
    Case("plot: no such directory", "", "nmt plot nowhere"),
    Case("plot: not a run", "", "nmt plot text"),
    Case("plot: log.jsonl missing", "rm runs/tiny/log.jsonl", "nmt plot runs/tiny", 0, 1, writes=True),
    Case("plot: log.jsonl is binary", "cp $last/weights.safetensors runs/tiny/log.jsonl", "nmt plot runs/tiny", 0, 1,
         writes=True),
    Case("plot: log.jsonl is a directory", "rm runs/tiny/log.jsonl; mkdir runs/tiny/log.jsonl", "nmt plot runs/tiny"),
    Case("plot: output in no directory", "", "nmt plot runs/tiny --output no/plot.png"),
    Case("plot: output of no kind", "", "nmt plot runs/tiny --output plot.doc"),
    Case("plot: file size limit", "", "ulimit -f 1; nmt plot runs/tiny"),
)
STRANGERS = (  # what is linked away is in `victim`, and must not change
    *(Case(f"stranger: {name} is a link", f"{LINK_AWAY} away {name}", MORE, said=f"{name}: a symbolic link")
      for name in ("lock", "log.jsonl", "dev", "tokenizer", "tensorboard", "checkpoints", "checkpoints/average",
                   "checkpoints/step-00000002")),
    Case("stranger: .part files are links", f"{LINK_AWAY} for f in config.yaml run.json selected.json; do "
         "away $f.part; done", f"{MORE} && ! grep -qv mine victim/*", 0, None, writes=True),
    Case("stranger: a pipe as weights", f"{PIPE} $last/weights.safetensors", f"{TRANSLATE} --checkpoint 4",
         said="a pipe"),
    Case("stranger: a pipe as state.json", f"{PIPE} $last/state.json", f"{TRANSLATE} --checkpoint 4", said="a pipe"),
    Case("stranger: a pipe as run.json", f"{PIPE} runs/tiny/run.json", TRANSLATE, said="a pipe"),
    Case("stranger: a pipe as selected.json", f"{PIPE} runs/tiny/selected.json", TRANSLATE, said="a pipe"),
    Case("stranger: a pipe as tokenizer", f"{PIPE} runs/tiny/tokenizer/joint.model", TRANSLATE, said="a pipe"),
    Case("stranger: a pipe as log.jsonl", f"{PIPE} runs/tiny/log.jsonl", "nmt plot runs/tiny", said="a pipe"),
    Case("stranger: a pipe as log.jsonl, resumed", f"{PIPE} runs/tiny/log.jsonl", MORE, said="a pipe"),
    Case("stranger: a pipe as lock", f"{PIPE} runs/tiny/lock", "nmt runs", 0, 0),
    Case("stranger: /dev/zero as weights", f"{ZERO} $last/weights.safetensors", f"{TRANSLATE} --checkpoint 4",
         said="a device"),
    Case("stranger: /dev/zero as selected.json", f"{ZERO} runs/tiny/selected.json", TRANSLATE, said="a device"),
    Case("stranger: weights of a terabyte", "truncate -s 1T $last/weights.safetensors", f"{TRANSLATE} --checkpoint 4",
         said="where its header promises"),
    Case("stranger: state.json of a terabyte", "truncate -s 1T $last/state.json", f"{TRANSLATE} --checkpoint 4",
         said="more than such a file has"),
    Case("stranger: ids are a pipe", f"{PIPE} data/train.aa.ids.npy", TRAIN_NEW),
    Case("stranger: the partial directory is a link",
         "mkdir victim; echo mine > victim/kept; ln -s victim .new.partial", PREPARE_NEW, said="a symbolic link"),
    Case("stranger: an output's .part is a link", "echo mine > kept; ln -s kept out.part",
         f"{TRANSLATE} --output out; grep -q mine kept", 0, None, writes=True),
    Case("text: a pipe", f"{PIPE} text/train.aa", PREPARE_NEW, said="a pipe"),
    Case("text: /dev/zero", f"{ZERO} text/train.aa", PREPARE_NEW, said="a device"),
    Case("text: a gzip of one line without end", "head -c 300M /dev/zero | gzip > text/train.aa.gz; "
         "config train.aa train.aa.gz", f"ulimit -v 6000000; {PREPARE_NEW}", said="line 1 has more than 32 MB"),
    Case("translate: standard input without end", "", "nmt translate --run runs/tiny < /dev/zero",
         said="line 1 has more than 32 MB"),
    Case("translate: input is /dev/zero", "", "nmt translate --run runs/tiny --input /dev/zero", said="a device"),
    Case("translate: prefixes are /dev/zero", "", f"{TRANSLATE} --prefix /dev/zero --output out", said="a device"),
    Case("translate: input is a process", "", "nmt translate --run runs/tiny --input <(cat text/test.aa) | wc -l | "
         "grep -qx 10", 0, None),
    Case("translate: input is /dev/stdin", "", "cat text/test.aa | nmt translate --run runs/tiny --input /dev/stdin | "
         "wc -l | grep -qx 10", 0, None),
    Case("evaluate: both are processes", "", "nmt evaluate --hyp <(cat text/test.bb) --ref <(cat text/test.bb) | "
         "grep -q 'BLEU 100.00'", 0, 0),
    Case("evaluate: translations are /dev/zero", "", "nmt evaluate --hyp /dev/zero --ref text/test.bb",
         said="a device"),
    Case("config: a pipe", f"{PIPE} c.yaml", CONFIG, said="a pipe"),
    Case("config: /dev/zero", "", "nmt config --config /dev/zero", said="a device"),
    *(Case(f"prepare: ended by {name}", MUCH_TEXT, f"{WHILE_IT_PREPARES} kill -s {name} $!; wait $!", status, 1,
           f"ended by {name}") for name, status in (("SIGTERM", 143), ("SIGHUP", 129))),
)
CASES = (
    *USAGE, *CONFIGS, *TEXT, *PREPARING, *TRAINING, *TUNING, *SWEEPS, *RESUMING, *TRANSLATING, *EVALUATING, *LISTING,
    *STRANGERS,
)
