#!/usr/bin/env bash
# A peer on Multi30k or TED, German to English: fairseq with a published recipe, stopped after MINUTES, the last ten
# checkpoints averaged. What is not as published: the length, updates of 4,096 tokens, and the 8,000 pieces of
# SentencePiece that nmt learns, too.
#   multi30k  Wu et al., 2021: post-norm, dropout 0.3, inverse square root; there up to 8,000 updates on two GPUs, so
#             twice as many tokens, and the other direction
#   ted       fairseq's own recipe for IWSLT 2014, but with 3+3 layers of width 256, a fifth of the published
#             model, and a warm-up of 500 updates instead of 4,000, which so few would not leave: the text is
#             two fifths, and there are two cores instead of a GPU
#   scripts/experiments/fairseq.sh TASK FOLDER MINUTES [THREADS]      FOLDER has the files (data/README.md)
# It is installed, and the text cut into 8,000 pieces, on first use. The same command goes on with what was stopped.
set -euo pipefail
[ $# -ge 3 ] || { echo "$0: TASK, FOLDER and MINUTES are needed; the first lines of the script explain" >&2; exit 2; }
task=$1 root=$(realpath "$2") minutes=$3
case $task in
  multi30k)
    valid=val test=test_2016_flickr tokenize=13a run=runs/fairseq-$minutes
    recipe=(--encoder-layers 4 --decoder-layers 4 --encoder-embed-dim 128 --decoder-embed-dim 128
      --encoder-ffn-embed-dim 256 --decoder-ffn-embed-dim 256 --lr 5e-3 --warmup-updates 2000) ;;
  ted)
    valid=valid test=test tokenize=none run=runs/fairseq-ted
    recipe=(--encoder-layers 3 --decoder-layers 3 --encoder-embed-dim 256 --decoder-embed-dim 256
      --encoder-ffn-embed-dim 1024 --decoder-ffn-embed-dim 1024 --lr 5e-4 --warmup-updates 500 --weight-decay 1e-4) ;;
  *) echo "$0: no such task: $task" >&2; exit 2 ;;
esac
export OMP_NUM_THREADS=${4:-2} MKL_NUM_THREADS=${4:-2} CUDA_VISIBLE_DEVICES= TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1
home=${PEERS:-$HOME/.cache/nmt-peers}
bin=$home/venv-fairseq/bin
mkdir -p "$run/text"
for language in de en; do # by the names that the benchmarks know
  ln -sfn "$root/train.$language" "$run/text/train.$language"
  ln -sfn "$root/$valid.$language" "$run/text/val.$language"
  ln -sfn "$root/$test.$language" "$run/text/test_2016_flickr.$language"
done
text=$(PYTHONPATH=$(dirname "$0")/../.. python - "$run/text" "$home" <<'P'
import sys
from pathlib import Path

from scripts.bench.install import convert, install
from scripts.bench.peers import PEERS
from scripts.bench.testset import prepare_test
from scripts.bench.text import prepare_text

data, home = (Path(word).absolute() for word in sys.argv[1:])
text = prepare_text(data, home)
prepare_test(data, text)
install(PEERS["fairseq"], home)
convert(PEERS["fairseq"], text, home)
print(text)
P
)
"$bin/fairseq-train" "$text/fairseq" --cpu --seed 1 --save-dir "$run" --no-epoch-checkpoints --disable-validation \
  --arch transformer --share-all-embeddings --encoder-attention-heads 4 --decoder-attention-heads 4 --dropout 0.3 \
  --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --optimizer adam --adam-betas '(0.9, 0.98)' \
  --lr-scheduler inverse_sqrt --max-tokens 4096 --num-workers 0 "${recipe[@]}" \
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
  nmt evaluate --hyp "$run/$path.en" --ref "$root/$test.en" --tokenize "$tokenize"
done
