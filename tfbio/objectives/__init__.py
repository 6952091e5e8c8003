"""The objectives of pretraining: ELECTRA, and the masked language model."""
