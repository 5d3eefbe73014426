"""The command `nmt config`."""

from __future__ import annotations

from nmt.cli.app import app
from nmt.cli.options import ConfigOption, SetOption
from nmt.config.load import dump_config, load_config


@app.command("config")
def show_config(config: ConfigOption = "base.yaml", overrides: SetOption = None) -> None:
    """Print a complete configuration with descriptions.

    The output describes every setting and is a valid configuration file: a starting point for your own.

    \b
    Examples:
      nmt config
      nmt config --config multi30k.yaml --set data.direction=en-de > mine.yaml
      nmt config --config runs/sample-de-en/config.yaml
    """
    print(dump_config(load_config(config, overrides or ()), comments=True), end="")
