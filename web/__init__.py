"""The entrance for browsers: HTTP API, streams, the page."""
