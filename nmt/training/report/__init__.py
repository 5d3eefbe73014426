"""What is logged during training: log.jsonl, the screen, TensorBoard, alarms, a profile."""
