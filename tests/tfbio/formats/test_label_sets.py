"""The labels of a corpus: HoC's, against its original files, and those that are inferred."""

import collections
import re

from tests import reference
from tfbio.formats import hoc, tagged_words
from tfbio.formats.label_sets import HALLMARKS, labels_of
from tfbio.formats.tables import read_own_table
from tfbio.formats.task_examples import Question


def test_hallmarks_have_the_names_of_the_original_corpus():
    """The labels of a document, by name in the original files and by number in BLURB's."""
    import tarfile

    original = collections.defaultdict(set)
    with tarfile.open(reference.corpus("hoc/original/hoc_labels_text.tar.gz")) as archive:
        for member in archive:
            if re.search(r"labels/\d+\.txt$", member.name):
                text = archive.extractfile(member).read().decode().lower()
                pmid = re.search(r"(\d+)\.txt$", member.name)[1]
                original[pmid] = {name for name in HALLMARKS if name in text}
    read = collections.defaultdict(set)
    for split in ("train", "dev", "test"):
        for x in hoc.read(str(reference.corpus(f"hoc/blurb/{split}.tsv.gz"))):
            read[x.document] |= set(x.label)
    assert len(read) == 1852
    assert read == {pmid: original[pmid] for pmid in read}


def test_labels_are_inferred(write):
    tagged = tagged_words.read(write("a\tB-y\nb\tI-y\n\nc\tB-x-z\nd\tO\n"))
    assert labels_of(tagged) == ("x-z", "y")
    assert labels_of(tagged_words.read(write("a\tB\nb\tO\n"))) == ("",)
    many = read_own_table(write("A\tx|y\nB\ta|x\n"), ("text", "labels"))
    assert labels_of(many) == ("a", "x", "y")
    one = read_own_table(write("A\tx\nB\tb\nC\tx\n"))
    assert labels_of(one) == ("b", "x")
    scores = read_own_table(write("A\t1\n"), ("text", "score"))
    assert labels_of([*scores, Question("1", "", "", ("a",), (0,))]) == ()
