"""tfbio: pretrain encoders on PubMed and PMC, and measure them on BLURB and BLUE."""

__version__ = "0.1.0"
