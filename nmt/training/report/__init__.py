"""Reports during training: log.jsonl, screen, TensorBoard, alarms, profile."""
