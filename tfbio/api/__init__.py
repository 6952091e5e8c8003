"""The functions and classes for use in Python: `tfbio.load` and `tfbio.read`."""
