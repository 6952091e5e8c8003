"""Models for others: SavedModels and model cards."""
