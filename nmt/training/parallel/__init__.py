"""Training with several processes: collectives, the decisions of rank 0, and sharded models."""
