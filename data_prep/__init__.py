"""PubMed XML in; sentence-split documents, a vocabulary and pretraining examples out."""

import tfbio  # noqa: F401  for Ctrl-C while a command is imported
