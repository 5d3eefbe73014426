"""The command `nmt config`."""

from __future__ import annotations

from typing import Annotated

from nmt.cli.app import app
from nmt.cli.options import SetOption, configs, option
from nmt.config.load import dump_config, load_config
from nmt.errors import ConfigError


@app.command("config")
def show_config(
    config: Annotated[
        str | None,
        option("--config", "Config file, as for nmt train.  [default: base.yaml]", "FILE", autocompletion=configs),
    ] = None,
    overrides: SetOption = None,
    for_pairs: Annotated[
        int | None, option("--for-pairs", "Choose settings that suit this number of pairs.", "N", min=1)
    ] = None,
    minutes: Annotated[
        float | None,
        option("--minutes", "With --for-pairs: training time on this machine.  [default: 60]", "M", min=0.1),
    ] = None,
) -> None:
    """Print a complete configuration, or one for your text.

    The output describes every setting and is a valid configuration file: a starting point for your own.

    With --for-pairs, a short file is printed, with settings that suit the number of training pairs and the minutes of
    training on this machine, whose speed is measured first. The corpora are those of --config, or files to rename.

    \b
    Examples:
      nmt config
      nmt config --config multi30k.yaml --set data.direction=en-de > mine.yaml
      nmt config --config runs/sample-de-en/config.yaml
      nmt config --for-pairs 60000 --minutes 90 > mine.yaml
    """
    if for_pairs is None:
        if minutes is not None:
            raise ConfigError("--minutes needs --for-pairs N, the number of training pairs")
        print(dump_config(load_config(config or "base.yaml", overrides or ()), comments=True), end="")
        return
    from nmt.recipes.presets import preset

    print(preset(config, for_pairs, minutes or 60, overrides or ()), end="")
