#!/usr/bin/env bash
# A peer on Multi30k, German to English: Marian (pip install pymarian), stopped after MINUTES of CPU time, its training
# text cut into as many pieces as nmt's, by the same library. No recipe for so little time is published: size, dropout,
# label smoothing, warm-up and moving average are those of nmt; RATE is Adam's.
#   scripts/experiments/marian.sh FOLDER MINUTES [LAYERS [RATE]]   FOLDER has the files (data/README.md); one thread
# MARIAN is the program, such as venv/bin/pymarian.
set -euo pipefail
[ $# -ge 2 ] || { echo "$0: FOLDER and MINUTES are needed; the first lines of the script explain" >&2; exit 2; }
root=$(realpath "$1") minutes=$2 layers=${3:-4} rate=${4:-2e-3} marian=${MARIAN:-pymarian}
run=runs/marian-$layers-$minutes-$rate
mkdir -p "$run"
"$marian" train --type transformer -t "$root/train.de" "$root/train.en" -v "$run/vocab.spm" "$run/vocab.spm" \
  --dim-vocabs 8000 8000 --tied-embeddings-all --dim-emb 128 --transformer-dim-ffn 512 --transformer-heads 4 \
  --enc-depth "$layers" --dec-depth "$layers" --transformer-dropout 0.1 --label-smoothing 0.1 --mini-batch-words 2048 \
  --optimizer-params 0.9 0.98 1e-9 --learn-rate "$rate" --lr-warmup 400 --lr-decay-inv-sqrt 400 \
  --exponential-smoothing 0.002 --max-length 100 --cpu-threads 1 --seed 1 --disp-freq 50 --after 1000e \
  -m "$run/model.npz" > "$run/train.log" 2>&1 &
trainer=$!
trap 'kill "$trainer" 2> /dev/null' EXIT
while kill -0 "$trainer" 2> /dev/null && [ "$(ps -o cputimes= -p "$trainer")" -lt $((minutes * 60)) ]; do sleep 2; done
kill "$trainer" # it saves the model and exits
wait "$trainer" || true
trap - EXIT
grep -a 'Up\.' "$run/train.log" | tail -n 1
for split in val test_2016_flickr; do
  "$marian" decode -m "$run/model.npz" -v "$run/vocab.spm" "$run/vocab.spm" --beam-size 5 --normalize 1 --max-length-factor 2 \
    --cpu-threads 1 --mini-batch 32 --maxi-batch 100 --quiet < "$root/$split.de" > "$run/$split.en"
  echo "$split"
  nmt evaluate --hyp "$run/$split.en" --ref "$root/$split.en"
done
