"""The page of a comparison: `nmt compare --html FILE`."""
