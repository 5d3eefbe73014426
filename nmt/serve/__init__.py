"""`nmt serve`: translators behind HTTP, with LibreTranslate's interface and one of nmt's own."""
