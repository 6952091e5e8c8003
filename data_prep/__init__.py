"""PubMed XML in; sentence-split documents, a vocabulary and pretraining examples out."""
