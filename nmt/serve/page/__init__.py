"""The web page of the server: HTML, styles and scripts, which are served unchanged."""
