"""Splits texts into sentences, and packs these into segments."""
