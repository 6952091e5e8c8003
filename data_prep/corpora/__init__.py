"""Turns corpora as their makers released them into the files of benchmarks.

The modules that `tfbio.help` lists, such as `blurb` and `mednli`, are commands. bc2gm, jnlpba,
chemprot, ddi, hoc, ebm_pico, bioasq, biosses and abstract_mentions are readers for
`tfbio data TASK`, which is the command of `blurb`, and do nothing when they are run.

The commands write `train.tsv`, `dev.tsv` and `test.tsv`, as BLURB's own scripts do, which
<https://microsoft.github.io/BLURB/> offers as data_generation.tar.gz. Where a split is a list and
not a rule, the list is in that archive, in the folder `indexing`. The clinical corpora, which BLURB
does not have, follow the scripts of BLUE and bio-lm.
"""
