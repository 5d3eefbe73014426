#!/usr/bin/env bash
# Multi30k de-en with 5,000 pairs; of the other 24,000, both sides are there as monolingual text, as if they were no pairs.
# What does pre-training gain? All arms take as many CPU seconds, each on one core: as many as 1,500 updates of translation,
# of which 1,000 are left where something else is learned first. The numbers of updates follow from the speed of the
# objectives (scripts/measure/objectives.py); each arm ends with the CPU time of what was run.
#   scripts/experiments/pretraining.sh FOLDER SEED ARM...     FOLDER has the files (data/README.md); runs/pretraining/ARM-SEED
#   none    1,500 updates of translation
#   alone   1,000 of translation by a decoder alone, with as many parameters (docs/pretraining.md)
#   pairs   500 of denoising both sides of the pairs, then 1,000 of translation
#   mono    500 of denoising the pairs and the monolingual text, then 1,000 of translation
#   masked  1,400 of masked language modelling of both languages, then 1,000 of translation with that encoder
#   causal  1,100 of a language model of the target language, then 1,000 of translation with that decoder
#   back    500 of translation en-de, then 850 of the pairs, twice, and the English text with its translations
#   both    500 of denoising as for mono, 300 of translation en-de from there, 550 from there as for back
# Run the same command again to continue with what was stopped. Then: nmt compare runs/pretraining/* --split test_2016_flickr
set -euo pipefail
[ $# -ge 3 ] || { echo "$0: FOLDER, SEED and ARM are needed; the first lines of the script explain" >&2; exit 2; }
root=$(realpath "$1") seed=$2
shift 2
for arm in "$@"; do
  case $arm in none | alone | pairs | mono | masked | causal | back | both) ;; *) echo "$0: no such arm: $arm" >&2; exit 2 ;; esac
done
export OMP_NUM_THREADS=1
text=data/pretraining/text
mkdir -p "$text"
# put FILE: standard input becomes the file, at once, since another arm may be reading it
put() { cat > "$1.$$" && mv "$1.$$" "$1"; }
for language in de en; do
  head -n 5000 "$root/train.$language" | put "$text/train.$language"
  tail -n +5001 "$root/train.$language" | put "$text/mono.$language"
  for split in val test_2016_flickr; do put "$text/$split.$language" < "$root/$split.$language"; done
done
put data/pretraining/config.yaml <<Y
data:
  direction: de-en
  root: $text
  train: [{files: {de: train.de, en: train.en}}]
  valid: {files: {de: val.de, en: val.en}}
  test: {test_2016_flickr: {files: {de: test_2016_flickr.de, en: test_2016_flickr.en}}}
  mono: {de: [{files: {de: mono.de}}], en: [{files: {en: mono.en}}]}
tokenizer: {vocab_size: 4000}
model:
  {d_model: 128, n_heads: 4, d_ff: 256, encoder_layers: 4, decoder_layers: 4, embedding_dropout: 0.3, residual_dropout: 0.3}
training:
  {update_tokens: 2048, schedule: inverse_sqrt, peak_lr: 5e-3, warmup_steps: 200, cooldown: 0.2, ema: 0.99,
   validate_every_steps: 250, save_every_steps: 100}
Y

# run NAME OPTION...: one training, or the rest of it
run() {
  path=runs/pretraining/$1-$seed resumed=()
  shift
  if [ -e "$path/run.json" ]; then resumed=(--resume); fi
  nmt train "${resumed[@]}" --config "$config" --data "$data" --run "$path" --set "training.seed=$seed" "$@"
}

# learn NAME OBJECTIVE KIND UPDATES OPTION...: pre-training
learn() {
  run "$1" --set "training.objective=$2" --set "model.kind=$3" --set "training.max_steps=$4" \
    --set "training.validate_every_steps=$4" --set training.select_by=loss "${@:5}"
}

# back NAME: translate the English text with a run, prepare its translations with the pairs, twice; sets config and data
back() {
  translated=data/pretraining/$1-$seed
  nmt back-translate --reverse "runs/pretraining/$1-$seed" --mono "$text/mono.en" --how greedy --upsample 2 \
    --config "$config" --output "$translated"
  config=$translated/config.yaml data=$translated/prepared
  nmt prepare --config "$config" --data "$data" --tokenizer-from "$with"
}

with=data/pretraining/prepared
flock "$with.lock" nmt prepare --config data/pretraining/config.yaml --data "$with"
# the same pieces for all arms, but pairs alone
flock "$with.lock" nmt prepare --config data/pretraining/config.yaml --data "$with-pairs" --set 'data.mono={}' \
  --tokenizer-from "$with"
runs=runs/pretraining reverse=(--set data.direction=en-de)
for arm in "$@"; do
  config=data/pretraining/config.yaml data=$with
  case $arm in
    none) run none --set training.max_steps=1500 ;;
    alone) run alone --set training.max_steps=1000 --set model.kind=decoder --set model.decoder_layers=10 ;;
    pairs | mono)
      if [ "$arm" = pairs ]; then data=$with-pairs; fi
      learn "denoising-$arm" denoising translation 500
      run "$arm" --init-from "$runs/denoising-$arm-$seed" --set training.max_steps=1000
      ;;
    masked)
      learn encoder masked encoder 1400
      run masked --init-from "encoder=$runs/encoder-$seed" --set training.max_steps=1000
      ;;
    causal)
      learn lm causal decoder 1100
      run causal --init-from "decoder=$runs/lm-$seed" --set training.max_steps=1000
      ;;
    back)
      run reverse "${reverse[@]}" --set training.max_steps=500
      back reverse
      run back --set training.max_steps=850
      ;;
    both)
      learn denoising-mono denoising translation 500
      run reverse-mono "${reverse[@]}" --init-from "$runs/denoising-mono-$seed" --set training.max_steps=300
      back reverse-mono
      run both --init-from "$runs/denoising-mono-$seed" --set training.max_steps=550
      ;;
  esac
  echo "$arm, seed $seed: CPU time, user and system, of the shell and of this arm and those before it:"
  times  # not in a pipe, which would have a shell of its own
done
