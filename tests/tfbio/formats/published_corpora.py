"""Lists what is published of the tasks' corpora, and reads their files as text."""

import gzip

import pytest

from tfbio.formats.tables import read_table

GAD = ("index", "sentence", "label")
BIOSSES = ("pair_id", "sent1", "sent2", "score")

# (folder, files) -> what the papers give for training, development and test: Table 1 of BioELECTRA,
# Table 3 of BLURB. None: not published for this copy, or the file cannot be had.
MENTIONS = {
    ("bc5cdr_chem/blurb", "train.tsv.gz dev.tsv.gz test.tsv.gz"): (5203, 5347, 5385),
    ("bc5cdr_chem/mtl_iob", "train.tsv.gz devel.tsv.gz test.tsv.gz"): (5203, 5347, 5385),
    ("bc5cdr_disease/blurb", "train.tsv.gz dev.tsv.gz test.tsv.gz"): (4182, 4244, 4424),
    ("ncbi_disease/blurb", "train.tsv.gz dev.tsv test.tsv"): (5134, 787, 960),
    ("ncbi_disease/mtl_iob", "train.tsv.gz devel.tsv test.tsv"): (5134, 787, 960),
    ("bc2gm/blurb", "train.tsv.gz dev.tsv.gz test.tsv.gz"): (15197, 3061, 6325),
    ("jnlpba/blurb", "train.tsv.gz dev.tsv.gz test.tsv.gz"): (46750, 4551, 8662),
    # The same mentions, with their types.
    ("jnlpba/mtl_5class", "train.tsv.gz devel.tsv.gz test.tsv.gz"): (46750, 4551, 8662),
}
LABELLED_WORDS = {
    ("ebm_pico/blurb", "dev.tsv.gz test.tsv.gz"): (85321, 16364),
    # An older release of the corpus, of which nothing was published.
    ("ebm_pico/scibert", "dev.txt.gz test.txt.gz"): (None, None),
}
INSTANCES = {
    ("chemprot/blurb", "train.tsv.gz dev.tsv.gz test.tsv.gz"): (18035, 11268, 15745),
    ("ddi2013/blurb", "train.tsv.gz dev.tsv.gz test.tsv.gz"): (25296, 2496, 5716),
    ("gad/blurb", "train.tsv.gz dev.tsv test.tsv"): (4261, 534, 535),
    ("biosses/blurb", "train.tsv dev.tsv test.tsv"): (64, 16, 20),
}
DOCUMENTS = {
    ("hoc/blurb", "train.tsv.gz dev.tsv.gz test.tsv.gz"): (1295, 186, 371),
    ("hoc/blue", "train.tsv.gz dev.tsv.gz test.tsv.gz"): (1108, 157, 315),
}
# What the files hold where it is not what the papers say.
DIFFERENCES = {
    # Both copies, BLURB's and the MTL one it is made from, hold two mentions more.
    "bc5cdr_disease/blurb/dev.tsv.gz": 4246,
    # The papers swap the two: the test set is the test part of BioBERT's first fold, of 534 lines.
    "gad/blurb/dev.tsv": 535,
    "gad/blurb/test.tsv": 534,
    # The documents are those of BLURB's list, with the labels of the corpus's release 2.00.
    "ebm_pico/blurb/dev.tsv.gz": 87308,
}


def each(published):
    """A test case for each file: its name, and the count that is to be found."""
    return [
        pytest.param(name, DIFFERENCES.get(name, count), id=name)
        for (folder, files), counts in published.items()
        for file, count in zip(files.split(), counts, strict=True)
        for name in [f"{folder}/{file}"]
    ]


def raw(path):
    """The text of a file."""
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")


def read_gad(path):
    return read_table(path, header=GAD, labels=("0", "1"))
