"""Imported by Python as it starts; see `untraced.preloading`."""

import sys

trace = sys.gettrace()
sys.settrace(None)
import torch  # noqa: E402
import torch.distributed.device_mesh  # noqa: E402
import torch.profiler  # noqa: E402

if "train" in sys.orig_argv and "torch.distributed.run" not in sys.orig_argv:
    import torch._dynamo  # noqa: F401  (which an optimizer imports when its state is first asked for)

sys.settrace(trace)
