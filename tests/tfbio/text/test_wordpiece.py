"""WordPiece's vocabulary files, good and bad."""

import pytest

from tfbio.text import special_tokens, wordpiece

SPECIAL = "".join(f"{token}\n" for token in special_tokens.SPECIAL_TOKENS)


def test_lines_are_ids(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text(SPECIAL + "a\n##\u2028\n##\x85\n", encoding="utf-8")
    vocab = wordpiece.read_vocab(path)
    assert vocab["[PAD]"] == 0 and vocab["a"] == 5
    assert vocab["##\u2028"] == 6 and vocab["##\x85"] == 7 and len(vocab) == 8


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (SPECIAL.replace("[MASK]\n", ""), r"vocab.txt has no \[MASK\]: .*data_prep.vocabulary"),
        ("", r"has no \[PAD\], \[UNK\], \[CLS\], \[SEP\], \[MASK\]"),
        (SPECIAL + "a\nb\na\n", "has 'a' twice, on lines 6 and 8"),
        (b"\xff\xfe\x00", "not text in UTF-8"),
    ],
)
def test_bad_vocabularies_are_named(tmp_path, content, expected):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(special_tokens.VocabularyError, match=expected):
        wordpiece.read_vocab(path)


def test_a_missing_vocabulary_is_named(tmp_path):
    for path in (tmp_path / "gone.txt", tmp_path):
        with pytest.raises(special_tokens.VocabularyError, match="cannot be read.*vocab.txt"):
            wordpiece.read_vocab(path)
