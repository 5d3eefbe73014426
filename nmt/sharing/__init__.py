"""Models on the Hugging Face hub: pushed by `nmt push`, loaded as hf://owner/name."""
