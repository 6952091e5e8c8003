"""Benchmark corpora as their makers released them, made the instances that benchmarks make of them.

One module and command for each corpus. Each writes `train.tsv`, `dev.tsv` and `test.tsv`, as
BLURB's own scripts do, which <https://microsoft.github.io/BLURB/> offers as data_generation.tar.gz.
Where a split is no rule but a list, it is in that archive, in the folder `indexing`. The clinical
corpora, which BLURB does not have, follow the scripts of BLUE and bio-lm.
"""
