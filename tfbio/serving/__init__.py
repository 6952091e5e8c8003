"""A model behind HTTP: limits, request bodies, shared batches, metrics, and the server."""
