#!/usr/bin/env bash
# Does context help where the order of lines is real? A model learns speeches of the European Parliament, software texts
# and news for UPDATES (1,500; base), and continues for MORE (600) smaller updates with half of the pairs joined with those
# before them (joined), and as long without (single). A tenth of the speeches and of the software texts is held out in blocks
# of 200 lines, half of it as test set. The models translate it line by line (single, joined), with two sentences of context
# (context), in lines of three sentences (three), and these lines split into sentences (split).
#   scripts/experiments/order.sh DATA [STEP...]     DATA has the corpora of general.yaml
# The steps are base, single, joined and compare. Everything is written to data/order and runs/order. The same command
# continues what was stopped.
set -euo pipefail
[ $# -ge 1 ] || { echo "$0: DATA is needed; the first lines of the script explain" >&2; exit 2; }
data=$(realpath "$1")
shift
steps=("$@")
[ $# -gt 0 ] || steps=(base single joined compare)
runs=runs/order text=data/order/text hyp=data/order/hyp corpora=(europarl libreoffice)
mkdir -p $text $hyp
for corpus in "${corpora[@]}"; do
  for language in de en; do
    awk -v out="$text/$corpus" -v language=$language '{
      block = int((NR - 1) / 200) % 20
      part = block == 0 ? "test" : block == 10 ? "valid" : "train"
      file = out "-" part "." language
      if (part == "test" && NR % 200 == 1 && NR > 1) print "" > file # ends the document
      print > file
    }' "$data/$corpus/train.$language"
  done
done
files() { echo "files: {de: $1.de, en: $1.en}"; }
options=(--config "$(dirname "$0")/ted.yaml" --data data/order/prepared --set data.root=$text --set data.documents=true
  --set data.clean.overlap=either
  --set "data.train=[{$(files europarl-train), repeat: 2}, {$(files libreoffice-train)},
    {$(files "$data/opennmt10k/train")}, {$(files "$data/news_commentary/train"), repeat: 2}]"
  --set "data.valid={$(files europarl-valid)}"
  --set "data.test={europarl: {$(files europarl-test)}, software: {$(files libreoffice-test)}}"
  --set model.d_model=256 --set model.d_ff=1024 --set model.encoder_layers=3 --set model.decoder_layers=3
  --set training.update_tokens=4096 --set training.cooldown=0.2 --set training.ema=0.999
  --set training.validate_every_steps=400)
nmt prepare "${options[@]}"
train() { # NAME OPTIONS...
  local run=$runs/$1
  if [ -e "$run/run.json" ]; then nmt train --resume --run "$run"; else nmt train --run "$run" "${options[@]}" "${@:2}"; fi
}
base() {
  train base --set training.peak_lr=3e-3 --set training.warmup_steps=200 --set training.max_steps="${UPDATES:-1500}"
}
continued() { # NAME OPTIONS...
  train "$1" --init-from $runs/base --set training.peak_lr=1e-3 --set training.warmup_steps=100 \
    --set training.cooldown=0.4 --set training.max_steps="${MORE:-600}" --set training.update_tokens=2048 "${@:2}"
}
single() { continued single; }
joined() { continued joined --set training.modifiers.join=0.5; }
translate() { # RUN CORPUS KIND INPUT OPTIONS...
  nmt translate --run "$runs/$1" --input "$text/$4.de" --output "$hyp/$2-$3.en" "${@:5}"
}
compare() {
  local corpus
  for corpus in "${corpora[@]}"; do
    translate single "$corpus" single "$corpus-test"
    translate joined "$corpus" joined "$corpus-test"
    translate joined "$corpus" context "$corpus-test" --set search.context=2
    nmt compare --hyp $hyp/"$corpus"-{single,joined,context}.en --ref "$text/$corpus-test.en"
    for language in de en; do
      grep . "$text/$corpus-test.$language" | paste -d ' ' - - - | sed 's/ *$//' > "$text/$corpus-three.$language"
    done
    translate single "$corpus" split "$corpus-three" --set search.split=always
    translate single "$corpus" whole "$corpus-three" --set search.split=never
    translate joined "$corpus" three "$corpus-three"
    nmt compare --hyp $hyp/"$corpus"-{split,whole,three}.en --ref "$text/$corpus-three.en"
    python - $hyp/"$corpus"-{split,whole,three}.en "$text/$corpus-three.en" <<'PY'
import sys

*systems, references = ([len(line.split()) for line in open(name, encoding="utf-8")] for name in sys.argv[1:])
for name, lengths in zip(sys.argv[1:], systems):
    n_short = sum(own < 0.7 * wanted for own, wanted in zip(lengths, references, strict=True))
    print(f"{name}: {n_short} of {len(references)} lines have less than 0.7 of the words of the reference")
PY
  done
}
for step in "${steps[@]}"; do $step; done
