"""Estimates the time and the memory of a run before it begins."""
