#!/usr/bin/env bash
# A peer on Multi30k de-en: fairseq with the recipe that is published for this model and corpus (Wu et al., 2021:
# post-norm, dropout 0.3, inverse square root, the last ten checkpoints averaged), stopped after MINUTES. Not as there:
# the length (up to 8,000 updates), updates of 4,096 tokens (there on two GPUs, so twice as many), the direction, and the 8,000
# pieces of SentencePiece that nmt learns.
#   scripts/experiments/fairseq.sh FOLDER MINUTES [THREADS]      FOLDER has the files (data/README.md)
# It is installed, and the text cut into 8,000 pieces, on first use. The same command goes on with what was stopped.
set -euo pipefail
[ $# -ge 2 ] || { echo "$0: FOLDER and MINUTES are needed; the first lines of the script explain" >&2; exit 2; }
root=$1 minutes=$2
export OMP_NUM_THREADS=${3:-2} MKL_NUM_THREADS=${3:-2} CUDA_VISIBLE_DEVICES= TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1
home=${PEERS:-$HOME/.cache/nmt-peers}
bin=$home/venv-fairseq/bin
run=runs/fairseq-$minutes
text=$(PYTHONPATH=$(dirname "$0")/../.. python - "$root" "$home" <<'P'
import sys
from pathlib import Path

from scripts.bench.install import convert, install
from scripts.bench.peers import PEERS
from scripts.bench.testset import prepare_test
from scripts.bench.text import prepare_text

data, home = (Path(word).resolve() for word in sys.argv[1:])
text = prepare_text(data, home)
prepare_test(data, text)
install(PEERS["fairseq"], home)
convert(PEERS["fairseq"], text, home)
print(text)
P
)
mkdir -p "$run"

"$bin/fairseq-train" "$text/fairseq" --cpu --seed 1 --save-dir "$run" --no-epoch-checkpoints --disable-validation \
  --arch transformer --share-all-embeddings --encoder-layers 4 --decoder-layers 4 \
  --encoder-embed-dim 128 --decoder-embed-dim 128 --encoder-ffn-embed-dim 256 --decoder-ffn-embed-dim 256 \
  --encoder-attention-heads 4 --decoder-attention-heads 4 --dropout 0.3 \
  --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --optimizer adam --adam-betas '(0.9, 0.98)' \
  --lr 5e-3 --lr-scheduler inverse_sqrt --warmup-updates 2000 --max-tokens 4096 --num-workers 0 \
  --stop-time-hours "$(awk "BEGIN { print $minutes / 60 }")" --save-interval-updates 100 --keep-interval-updates 10 \
  --no-progress-bar --log-interval 100 >> "$run/train.log" 2>&1
grep 'num_updates' "$run/train.log" | tail -n 1

"$bin/python" - "$run" <<'P'
import sys
from pathlib import Path

import torch

states = [torch.load(path, weights_only=False) for path in Path(sys.argv[1]).glob("checkpoint_*_*.pt")]
mean = {name: sum(state["model"][name].double() for state in states) / len(states) for name in states[0]["model"]}
states[0]["model"] = {name: value.to(states[0]["model"][name].dtype) for name, value in mean.items()}
torch.save(states[0], Path(sys.argv[1]) / "average.pt")
print(f"average of {len(states)} checkpoints")
P

# from PyTorch 1.12 on it calls a fused layer that newer ones refuse
plain="import torch; torch.__version__ = '1.11.0'; from fairseq_cli.interactive import cli_main; cli_main()"
for path in checkpoint_last average; do
  "$bin/python" -c "$plain" "$text/fairseq" --cpu --path "$run/$path.pt" --beam 5 --remove-bpe sentencepiece \
    --buffer-size 1000 --batch-size 64 < "$text/pieces.test.de" 2> "$run/translate.log" \
    | grep '^H-' | sed 's/^H-//' | sort -n | cut -f 3 > "$run/$path.en"
  echo "$path"
  nmt evaluate --hyp "$run/$path.en" --ref "$root/test_2016_flickr.en"
done
