"""Make a tiny random checkpoint of COMET: `python comet_checkpoint.py FOLDER CLASS`.

It runs in COMET's environment. Nothing is downloaded: the encoder is a BERT of two layers, its pieces are letters.
"""

import string
import sys
from pathlib import Path

import pytorch_lightning
import torch
import yaml
from comet.models import str2model
from transformers import BertConfig, BertTokenizerFast


def main(folder: Path, class_identifier: str) -> None:
    encoder = folder / "encoder"
    encoder.mkdir(parents=True)
    letters = string.ascii_letters + string.digits + string.punctuation
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    vocabulary = encoder / "vocab.txt"
    vocabulary.write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    BertTokenizerFast(str(vocabulary), do_lower_case=False).save_pretrained(encoder)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    BertConfig(vocab_size=len(pieces), max_position_embeddings=64, **sizes).save_pretrained(encoder)

    settings = {"encoder_model": "BERT", "pretrained_model": str(encoder), "hidden_sizes": [32]}
    if class_identifier == "unified_metric":
        settings |= {"sent_layer": "mix", "input_segments": ["mt", "src"]}
    torch.manual_seed(1)
    model = str2model[class_identifier](**settings, load_pretrained_weights=False)
    checkpoint = {
        "state_dict": model.state_dict(),
        "hyper_parameters": dict(model.hparams),
        "pytorch-lightning_version": pytorch_lightning.__version__,
    }
    (folder / "checkpoints").mkdir()
    torch.save(checkpoint, folder / "checkpoints" / "model.ckpt")
    (folder / "hparams.yaml").write_text(yaml.safe_dump({"class_identifier": class_identifier}), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
