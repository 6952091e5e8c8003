"""Runs the stages on Beam, and keeps finished parts in a working folder."""
