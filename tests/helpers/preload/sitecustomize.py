"""Imported by Python as it starts: imports what `untraced.preloading` names before anything of the program runs."""

import importlib
import os
import sys

trace = sys.gettrace()
sys.settrace(None)
for name in os.environ["PRELOAD"].split():
    importlib.import_module(name)
sys.settrace(trace)
