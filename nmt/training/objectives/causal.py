"""Causal language models, which predict each piece of a line from those before it (GPT; Radford et al., 2018)."""

from __future__ import annotations

from nmt.training.objective import Objective


class Causal(Objective):
    """Causal language modelling."""
