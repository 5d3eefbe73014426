"""A stand-in for COMET's command: `python comet_stand_in.py HOW …` takes what `comet-score` takes, and nothing else.

A line's score is the share of words of the reference that the translation has. HOW says what goes wrong, or `well`.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def read(path: str) -> list[str]:
    with Path(path).open(encoding="utf-8") as file:  # as COMET reads: any line end
        return [line.strip() for line in file.readlines()]


def score(translation: str, reference: str) -> float:
    words = reference.split()
    return sum(word in translation.split() for word in words) / max(1, len(words))


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("how")
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("-s", required=True)
    parser.add_argument("-t", nargs="+", required=True)
    parser.add_argument("-r", required=True)
    parser.add_argument("--to_json", required=True)
    parser.add_argument("--quiet", action="store_true", required=True)
    parser.add_argument("--model", required=True)
    arguments = parser.parse_args()
    how, output = arguments.how, Path(arguments.to_json)
    print("system\tscore: 0.5")
    print("Fetching files\nLoading the model:  50%\rLoading the model: 100%\n", file=sys.stderr, flush=True)
    sources, references = read(arguments.s), read(arguments.r)
    content: object = {
        path: [
            {"src": src, "mt": mt, "ref": ref, "COMET": score(mt, ref)}
            for src, mt, ref in zip(sources, read(path), references, strict=True)
        ]
        for path in arguments.t
    }
    of_last = content[arguments.t[-1]]
    if how == "fails":
        sys.exit("Traceback\nKeyError: \"Model 'x' not supported by COMET.\"\n \n")
    elif how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "hangs":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        Path(arguments.model).write_text(f"{os.getpid()} {child.pid}", encoding="utf-8")
        time.sleep(600)
    elif how == "silent":
        return
    elif how == "other":
        content = {"scores": [0.5]}
    elif how == "fewer":
        of_last.pop()
    elif how in ("nan", "infinite"):
        of_last[1]["COMET"] = float("nan" if how == "nan" else "-inf")
    elif how == "words":
        of_last[1]["COMET"] = "0.5"
    output.write_text("0.5 0.5" if how == "text" else json.dumps(content, indent=4), encoding="utf-8")


if __name__ == "__main__":
    main()
