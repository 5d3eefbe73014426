"""Reports during training: log.jsonl, screen, TensorBoard and other trackers, alarms, profile."""
