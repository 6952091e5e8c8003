"""What pretraining learns: ELECTRA, and masked language models."""
