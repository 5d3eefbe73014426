#!/usr/bin/env bash
# Multi30k de-en with 5,000 pairs; of the other 24,000, both sides are there as monolingual text, as if they were no pairs.
# What does denoising before translating gain? All arms make as many updates of as many target tokens, each on one core.
#   scripts/experiments/pretraining.sh FOLDER SEED ARM...     FOLDER has the files (data/README.md); runs/pretraining/ARM-SEED
#   none   1,500 updates of translation
#   pairs  500 of denoising both sides of the pairs, then 1,000 of translation
#   mono   500 of denoising the pairs and the monolingual text, then 1,000 of translation
# Run the same command again to continue with what was stopped. Then: nmt compare runs/pretraining/* --split test_2016_flickr
set -euo pipefail
[ $# -ge 3 ] || { echo "$0: FOLDER, SEED and ARM are needed; the first lines of the script explain" >&2; exit 2; }
root=$(realpath "$1") seed=$2
shift 2
for arm in "$@"; do
  case $arm in none | pairs | mono) ;; *) echo "$0: no such arm: $arm" >&2; exit 2 ;; esac
done
export OMP_NUM_THREADS=1
text=data/pretraining/text
mkdir -p "$text"
for language in de en; do
  head -n 5000 "$root/train.$language" > "$text/train.$language"
  tail -n +5001 "$root/train.$language" > "$text/mono.$language"
  cp "$root/val.$language" "$root/test_2016_flickr.$language" "$text"
done
cat > data/pretraining/config.yaml <<Y
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
  path=runs/pretraining/$1 resumed=()
  shift
  if [ -e "$path/run.json" ]; then resumed=(--resume); fi
  nmt train "${resumed[@]}" --config data/pretraining/config.yaml --data "$data" --run "$path" \
    --set "training.seed=$seed" "$@"
}

denoise=(--set training.objective=denoising --set training.max_steps=500 --set training.select_by=loss
  --set training.validate_every_steps=500)
with=data/pretraining/prepared
flock "$with.lock" nmt prepare --config data/pretraining/config.yaml --data "$with"
# the same pieces for all arms, but pairs alone
flock "$with.lock" nmt prepare --config data/pretraining/config.yaml --data "$with-pairs" --set 'data.mono={}' \
  --tokenizer-from "$with"
for arm in "$@"; do
  case $arm in
    none) data=$with run "none-$seed" --set training.max_steps=1500 ;;
    *)
      data=$with
      if [ "$arm" = pairs ]; then data=$with-pairs; fi
      run "denoising-$arm-$seed" "${denoise[@]}"
      run "$arm-$seed" --init-from "runs/pretraining/denoising-$arm-$seed" --set training.max_steps=1000
      ;;
  esac
done
