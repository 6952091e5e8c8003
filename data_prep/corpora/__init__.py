"""Turns corpora as their makers released them into the files of benchmarks.

Each corpus has a module, which is a command. It writes `train.tsv`, `dev.tsv` and `test.tsv`, as
BLURB's own scripts do, which <https://microsoft.github.io/BLURB/> offers as data_generation.tar.gz.
Where a split is a list and not a rule, the list is in that archive, in the folder `indexing`. The
clinical corpora, which BLURB does not have, follow the scripts of BLUE and bio-lm.
"""
