"""Selects the articles that are kept, in which version, and writes them as documents."""
