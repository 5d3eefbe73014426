"""Reports of `nmt prepare` on a corpus: on the screen, as JSON and as an HTML page."""
