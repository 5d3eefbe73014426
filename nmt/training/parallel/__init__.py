"""Training with several processes: collectives, the decisions of rank 0, sums of gradients, and sharded models."""
