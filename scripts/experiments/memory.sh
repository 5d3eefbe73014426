#!/usr/bin/env bash
# What do fuzzy matches add? A model learns software texts for UPDATES (3,000) with the translations of similar lines
# (training.modifiers.fuzzy), and another without, each with one thread; another learns with the translations of less
# similar lines, too (data.fuzzy_threshold 0.5 in place of 0.7). Two more models have only learned half of the text
# (half). A tenth of the text is held out in blocks of 200 lines, half of it as test set; training pairs that share a line
# with it are dropped. All models translate it with the whole training text as a memory, the one without also without a
# memory, and are compared on the lines with a similar training line (0.7), on the others and on all. The third
# comparison has a memory with the dropped pairs, in which some lines of the test set occur, and the last one is of the
# models of half of the text, on the same lines.
#   scripts/experiments/memory.sh DATA     DATA has the corpora of general.yaml
# Everything is written to data/memory and runs/memory. The same command continues what was stopped.
set -euo pipefail
[ $# -eq 1 ] || { echo "$0: DATA is needed; the first lines of the script explain" >&2; exit 2; }
here=$(dirname "$0") text=data/memory/text prepared=data/memory/prepared hyp=data/memory/hyp runs=runs/memory
mkdir -p $text $hyp
for language in de en; do
  awk -v out="$text" -v language=$language '{
    block = int((NR - 1) / 200) % 20
    part = block == 0 ? "test" : block == 10 ? "valid" : "train"
    print > out "/" part "." language
    if (part == "train" && block % 2) print > out "/half." language
  }' "$1/libreoffice/train.$language"
done
files() { echo "files: {de: $1.de, en: $1.en}"; }
set_options() { # TEXT THRESHOLD
  options=(--config "$here/tags.yaml" --data "$prepared-$1-$2" --set data.root=$text --set data.clean.overlap=either
    --set "data.train=[{$(files "$1")}]" --set "data.valid={$(files valid)}" --set "data.test={test: {$(files test)}}"
    --set "data.fuzzy_threshold=$2" --set training.max_minutes=null --set training.max_steps="${UPDATES:-3000}")
}
for of in "train 0.7" "train 0.5" "half 0.5"; do
  set_options $of
  nmt prepare "${options[@]}"
done
train() { # NAME TEXT THRESHOLD MODIFIERS
  set_options "$2" "$3"
  if [ -e "$runs/$1/run.json" ]; then
    nmt train --resume --run "$runs/$1"
  else
    nmt train "${options[@]}" --run "$runs/$1" --set "training.modifiers=$4"
  fi
}
export OMP_NUM_THREADS=1
train plain train 0.7 '{}' &
plain=$!
train fuzzy-0.7 train 0.7 '{fuzzy: 0.8}'
wait "$plain"
train plain-half half 0.5 '{}' &
plain=$!
train fuzzy-half half 0.5 '{fuzzy: 0.8}'
wait "$plain"
train fuzzy-0.5 train 0.5 '{fuzzy: 0.8}'
memory() { echo "{files: {de: $1/train.de, en: $1/train.en}}"; }
nmt translate --run $runs/plain --input $text/test.de --output $hyp/plain.en
nmt translate --run $runs/plain-half --input $text/test.de --output $hyp/plain-half.en
for run in plain fuzzy-0.7 fuzzy-0.5 plain-half fuzzy-half; do
  nmt translate --run $runs/$run --tm "$(memory $prepared-train-0.7)" --input $text/test.de --output $hyp/$run-tm.en
  nmt translate --run $runs/$run --tm "$(memory $text)" --input $text/test.de --output $hyp/$run-whole.en
done
cp $text/test.en $hyp/reference.en
python - $prepared-train-0.7/test.de.matches.npy $hyp <<'P'
import sys
from pathlib import Path

import numpy as np

is_matched = (np.load(sys.argv[1]) >= 0).tolist()
for path in [*Path(sys.argv[2]).glob("*.en")]:
    lines = path.read_text(encoding="utf-8").split("\n")
    for name, wanted in (("matched", True), ("others", False)):
        chosen = [line for line, matched in zip(lines, is_matched, strict=False) if matched == wanted]
        path.with_suffix(f".{name}").write_text("".join(f"{line}\n" for line in chosen), encoding="utf-8")
print(f"{sum(is_matched)} of {len(is_matched)} lines have a similar line in the training text")
P
for lines in matched others en; do
  nmt compare --hyp $hyp/{plain,plain-tm,fuzzy-0.7-tm,fuzzy-0.5-tm}.$lines --ref $hyp/reference.$lines
done
nmt compare --hyp $hyp/{plain,plain-whole,fuzzy-0.7-whole,fuzzy-0.5-whole}.en --ref $hyp/reference.en
for lines in matched others en; do
  nmt compare --hyp $hyp/{plain-half,fuzzy-half-tm}.$lines --ref $hyp/reference.$lines
done
