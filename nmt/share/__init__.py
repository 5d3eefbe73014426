"""Sharing models: exports, CTranslate2 and the Hugging Face Hub."""
