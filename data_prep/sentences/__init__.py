"""Splits texts into sentences, learns vocabularies, and makes pretraining examples."""
