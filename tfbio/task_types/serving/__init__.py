"""Task types in graphs that take strings, for a SavedModel."""
