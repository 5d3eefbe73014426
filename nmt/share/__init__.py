"""Models for others: exports, CTranslate2, and the Hugging Face hub."""
