#!/usr/bin/env bash
# Does a classifier of pairs find damaged ones, and what is that worth? The first 20,000 pairs of a corpus are trusted: the
# classifier learns from them. Of the next 40,000 half are damaged (scripts/measure/damage.py). Three translation runs of as
# many updates, each on one core, learn from those 40,000, none from the trusted ones.
#   scripts/experiments/filter.sh FOLDER [ARM...]     FOLDER has train, valid and test in .de and .en; runs/filter/ARM
#   damaged    all of the damaged text
#   filtered   the half of it that the classifier finds best; trains that first, and prints what it finds
#   clean      the pairs that are not damaged, which is what a perfect filter keeps
# All three by default. Run the same command again to continue with what was stopped; arms may run at the same time. Then:
#   nmt compare runs/filter/{damaged,filtered,clean} --split test
# UPDATES and CLASSIFIER_UPDATES may be set for shorter ones. The classifier's wrong sides are whole ones of other pairs,
# first halves and copies; of the other kinds of damage it learns nothing, half-translated pairs included, for which
# `replaced` would take more training than this.
set -euo pipefail
[ $# -ge 1 ] || { echo "$0: FOLDER is needed; the first lines of the script explain" >&2; exit 2; }
root=$(realpath "$1")
shift
arms=("$@")
[ $# -gt 0 ] || arms=(damaged filtered clean)
for arm in "${arms[@]}"; do
  case $arm in damaged | filtered | clean) ;; *) echo "$0: no such arm: $arm" >&2; exit 2 ;; esac
done
export OMP_NUM_THREADS=1
data=data/filter text=data/filter/text config=data/filter/config.yaml
trusted=20000 noisy=40000
mkdir -p "$text"
cat > "$config" <<Y
data:
  direction: de-en
  root: $text
  train: [{files: {de: trusted.de, en: trusted.en}}, {files: {de: damaged.de, en: damaged.en}}]
  valid: {files: {de: valid.de, en: valid.en}}
  test: {test: {files: {de: test.de, en: test.en}}}
tokenizer: {vocab_size: 4000}
model:
  {d_model: 128, n_heads: 4, d_ff: 256, encoder_layers: 4, decoder_layers: 4, embedding_dropout: 0.3, residual_dropout: 0.3}
training:
  {update_tokens: 2048, schedule: inverse_sqrt, peak_lr: 5e-3, warmup_steps: 200, cooldown: 0.2, average_last: 1,
   save_every_steps: 100}
Y

# prepare NAME: text/NAME.de and .en, with the pieces of the trusted and the damaged text
prepare() {
  nmt prepare --config "$config" --data "$data/$1" --tokenizer-from "$data/pieces" \
    --set "data.train=[{files: {de: $1.de, en: $1.en}}]"
}

# run NAME OPTION...: one training, or the rest of it
run() {
  path=runs/filter/$1 resumed=()
  if [ -e "$path/run.json" ]; then resumed=(--resume); fi
  nmt train "${resumed[@]}" --config "$config" --data "$data/$1" --run "$path" "${@:2}"
}

(
  flock 9
  if [ ! -e "$text/clean.en" ]; then
    for language in de en; do
      head -n "$trusted" "$root/train.$language" > "$text/trusted.$language"
      cp "$root/valid.$language" "$root/test.$language" "$text"
    done
    python -m scripts.experiments.filtering "$root" --skip "$trusted" --pairs "$noisy" --write "$text"
    for language in de en; do
      paste -d '\t' "$text/kinds" "$text/damaged.$language" | sed -n 's/^good\t//p' > "$text/clean.$language"
    done
  fi
  nmt prepare --config "$config" --data "$data/pieces"
) 9> "$data/lock"

for arm in "${arms[@]}"; do
  if [ "$arm" = filtered ]; then
    prepare trusted
    updates=${CLASSIFIER_UPDATES:-800}
    run trusted --set model.kind=encoder --set model.encoder_layers=3 \
      --set training.objective=masked \
      --set "training.masked.pair_task=[shuffled, cut, copied]" --set model.embedding_dropout=0 \
      --set model.residual_dropout=0 --set training.label_smoothing=0 --set training.update_tokens=4096 \
      --set training.peak_lr=3e-3 \
      --set "training.max_steps=$updates" --set training.validate_every_steps=250
    if [ ! -e "$text/filtered.en" ]; then
      python -m scripts.experiments.filtering "$root" --classifier runs/filter/trusted --skip "$trusted" --pairs "$noisy"
      nmt filter --classifier runs/filter/trusted --src "$text/damaged.de" --tgt "$text/damaged.en" --keep 0.5 \
        --output "$text/scores" --kept "$text/filtered.de" "$text/filtered.en"
    fi
  fi
  prepare "$arm"
  updates=${UPDATES:-1000}
  run "$arm" --set "training.max_steps=$updates" --set "training.validate_every_steps=$updates"
done
