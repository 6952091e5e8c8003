"""The functions and classes for use in Python: `tfbio.load`, `tfbio.read` and spaCy's component."""
