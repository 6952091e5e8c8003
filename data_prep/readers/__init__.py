"""Finds the input files, and reads articles, pages, notes and plain text from them."""
