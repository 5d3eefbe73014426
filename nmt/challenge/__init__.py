"""Challenge sets: does the model find the true translation more probable than one that is wrong in a known way?

`contrasts.py` makes wrong translations of any parallel text; `general.py` knows how, and of some languages `german.py`
and the like; `published.py` reads sets that others have made; `outcome.py` scores them, `report.py` shows the result.
"""
