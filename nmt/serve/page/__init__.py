"""The page that people translate on: HTML, style and script, which the server sends as they are."""
