"""Tokenizers as TensorFlow graphs, for a SavedModel that takes text."""
