"""Exports: models in other formats, SavedModels and model cards."""
