"""Pretraining, fine-tuning, sweeps and prediction."""
