"""The encoder, and the heads on it."""
