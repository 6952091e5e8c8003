"""Makes documents, vocabularies, pretraining examples and task files of the released corpora."""

import tfbio  # noqa: F401  for Ctrl-C while a command is imported
