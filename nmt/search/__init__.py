"""Search for translations: greedy, beam, diverse and constrained search, and sampling; `methods` chooses among them."""
