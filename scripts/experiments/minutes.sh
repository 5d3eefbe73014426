#!/usr/bin/env bash
# Does a training take the minutes that `nmt config --for-pairs` was asked for, what goes into updates, and what is its
# BLEU, with the sentences of a line translated together (long) and separately (always)?
#   scripts/experiments/minutes.sh DATA MINUTES...      DATA has the files {train,valid,test}.{de,en}
# One thread; the runs are in runs/minutes, under the folder's name. To compare two versions, run it with another `nmt`
# in the PATH in another directory, and then: nmt compare ELSEWHERE/runs/minutes/NAME runs/minutes/NAME --split test
set -euo pipefail
[ $# -ge 2 ] || { echo "$0: DATA and MINUTES are needed; the first lines of the script explain" >&2; exit 2; }
data=$(realpath "$1")
shift
export OMP_NUM_THREADS=1
name=$(basename "$data")
mkdir -p runs/minutes
nmt config --set data.root="$data" --set data.dir="data/minutes-$name" --set data.direction=de-en \
  --set 'data.train=[{files: {de: train.de, en: train.en}}]' --set 'data.valid={files: {de: valid.de, en: valid.en}}' \
  --set 'data.test={test: {files: {de: test.de, en: test.en}}}' > "runs/minutes/$name.yaml"
for minutes in "$@"; do
  run=runs/minutes/$name-$minutes
  nmt config --config "runs/minutes/$name.yaml" --for-pairs "$(wc -l < "$data/train.de")" --minutes "$minutes" \
    --set training.run_dir="$run" > "$run.yaml"
  nmt prepare --config "$run.yaml"
  time nmt train --config "$run.yaml"
  for split in long always; do
    nmt evaluate --run "$run" --set search.split="$split"
  done
done
