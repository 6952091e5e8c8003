"""Reads and writes weights: of runs, of TensorFlow 1 and of `transformers`."""
