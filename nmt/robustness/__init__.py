"""How much worse does a model translate text with typos, or in capitals? Niu et al., 2020, arXiv:2005.00580."""
