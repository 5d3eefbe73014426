"""The server `nmt serve`: translation over HTTP, with LibreTranslate's interface and nmt's own."""
