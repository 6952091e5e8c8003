"""Reads PubMed's and PMC's XML."""
