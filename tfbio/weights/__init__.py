"""Weights in and out: ours, TensorFlow 1's, Hugging Face's."""
