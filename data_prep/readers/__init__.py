"""Readers of PubMed's and PMC's XML."""
