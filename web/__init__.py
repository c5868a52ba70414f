"""The entrance for browsers: HTTP API, streams and the page."""
