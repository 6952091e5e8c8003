"""Runs the stages on Beam, and keeps what is done in a working folder."""
