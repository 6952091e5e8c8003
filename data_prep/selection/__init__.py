"""Which articles are kept, in which version."""
