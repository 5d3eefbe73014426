"""Imported by Python as it starts; see `untraced.preloading`."""

import sys

trace = sys.gettrace()
sys.settrace(None)
import torch  # noqa: E402
import torch.distributed.device_mesh  # noqa: E402
import torch.profiler  # noqa: E402, F401

sys.settrace(trace)
