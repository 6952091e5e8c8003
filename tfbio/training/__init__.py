"""Optimizers, devices, and what watches and saves a run."""
