"""Several processes: collectives, rank 0, and a model that is sharded."""
