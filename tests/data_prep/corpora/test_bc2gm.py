"""BC2GM: BLURB's files, sentence by sentence, and lines made up to be wrong."""

import pytest

from data_prep.corpora import bc2gm, released_files
from tests import reference
from tests.data_prep.corpora.test_abstract_mentions import of_blurb, of_rows


def test_the_published_files_sentence_by_sentence():
    left = []
    made = bc2gm.read_examples(reference.corpus("bc2gm/original"), left)
    for split, rows in made.items():
        assert of_rows(rows) == of_blurb(reference.corpus("bc2gm/blurb"), split), split
    assert [x[2] for x in left] == ["overlaps"] * 13


def release(folder, train="P1 The p53 gene. It\n", genes="P1|3 9|p53 gene\n"):
    for part, texts, mentions in (("train", train, genes), ("test", "P2 A text\n", "P2|1 4|text")):
        (folder / part).mkdir()
        (folder / part / f"{part}.in").write_text(texts)
        (folder / part / "GENE.eval").write_text(mentions)


def test_offsets_do_not_count_blanks_and_have_their_last_character(tmp_path):
    # The last mention's offsets have a slash more than its text, as one of the release has.
    release(tmp_path, "P1 The p53 gene /x\n", "P1|3 5|p53\nP1|3 9|p53 gene\nP1|10 11|x\n")
    left = []
    made = bc2gm.read_examples(tmp_path, left)
    words = [("The", "O"), ("p53", "B"), ("gene", "I"), ("/", "O"), ("x", "B"), ("",)]
    assert made["train"] == words and made["test"] == [("A", "O"), ("text", "B"), ("",)]
    assert [(x[0], x[2]) for x in left] == [("P1.4-7", "overlaps")]


@pytest.mark.parametrize(
    "given, message",
    [
        ({"train": "P1\n"}, r"train\.in, line 1: expected an id, a blank and a text"),
        ({"genes": "P1|4 9|p53 gene"}, r"GENE\.eval, line 1: 'p53 gene' is not at its place"),
        ({"genes": "P9|3 9|p53 gene"}, r"line 1: expected ID\|FIRST LAST\|MENTION"),
        ({"genes": "P1|3 99|p53 gene"}, r"line 1: expected ID\|FIRST LAST\|MENTION"),
        ({"genes": "P1"}, r"line 1: expected ID\|FIRST LAST\|MENTION"),
    ],
)
def test_what_does_not_fit_is_named(given, message, tmp_path):
    release(tmp_path, **given)
    with pytest.raises(released_files.CorpusError, match=message):
        bc2gm.read_examples(tmp_path, [])


def test_a_release_that_lacks_a_file_is_named(tmp_path):
    release(tmp_path)
    (tmp_path / "test" / "GENE.eval").unlink()
    with pytest.raises(released_files.CorpusError, match=r"lacks test/test\.in or the test/GENE"):
        bc2gm.read_examples(tmp_path, [])
