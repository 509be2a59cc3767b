"""The HTTP server: routes, the API, pages, streams to browsers."""
