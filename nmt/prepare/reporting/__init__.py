"""What `nmt prepare` reports of a corpus: on the screen, as JSON and as a page."""
