#!/usr/bin/env bash
# Do the settings of `nmt config --for-pairs` suit a text that nothing was tuned on? A German-English text, with the preset
# and other settings that cost as much.
#   [SEED=1] scripts/experiments/untouched.sh DATA PIECES:ARM...    such as 8000:128:4:2048:0.1:none:1100; ARM as in presets.sh
# DATA has train.de and train.en, of which 1,000 pairs become the development set and 1,000 the test set. Everything is
# written to data and runs/presets, under the folder's name; the same command continues what was stopped. Then, for a
# folder called libreoffice: nmt compare runs/presets/libreoffice-* --split test
set -euo pipefail
[ $# -ge 2 ] || { echo "$0: DATA and PIECES:ARM are needed; the first lines of the script explain" >&2; exit 2; }
data=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
shift
text=data/$(basename "$data")
if [ ! -d "$text" ]; then
  mkdir -p "$text.part"
  paste "$data"/train.de "$data"/train.en | shuf --random-source=<(yes 1) > "$text.part/all"
  part() { # NAME LINES
    sed -n "$2p" "$text.part/all" | cut -f1 > "$text.part/$1.de"
    sed -n "$2p" "$text.part/all" | cut -f2 > "$text.part/$1.en"
  }
  part valid 1,1000
  part test 1001,2000
  part train '2001,$'
  mv "$text.part" "$text"
fi
nmt config --config multi30k.yaml --set data.root="$text" --set 'data.train=[{files: {de: train.de, en: train.en}}]' \
  --set 'data.valid={files: {de: valid.de, en: valid.en}}' --set 'data.test={test: {files: {de: test.de, en: test.en}}}' \
  > "$text.yaml.$$"
mv "$text.yaml.$$" "$text.yaml"  # whole at any time: another of these scripts may be reading it
for arm in "$@"; do
  pieces=${arm%%:*}
  nmt prepare --config "$text.yaml" --set data.dir="$text-$pieces" --set tokenizer.vocab_size="$pieces"
  "$here"/presets.sh "$text.yaml" "$text-$pieces" "${arm#*:}"
done
