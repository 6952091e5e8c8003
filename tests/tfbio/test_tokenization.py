import os
from pathlib import Path

import pytest

from tfbio import tokenization

ROOT = Path(__file__).resolve().parents[2]
SPECIAL = "".join(f"{token}\n" for token in tokenization.SPECIAL_TOKENS)


@pytest.fixture(scope="session")
def pubmedbert_vocab():
    """The vocabulary of PubMedBERT, from the reference data beside the project."""
    shared = Path(os.environ.get("TFBIO_SHARED", ROOT.parent / "shared"))
    path = shared / "vocab/pubmedbert_uncased.txt"
    if not path.is_file():
        pytest.skip(f"there is no reference data at {path} (set TFBIO_SHARED)")
    return path


def test_lines_are_ids(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text(SPECIAL + "a\n##\u2028\n##\x85\n", encoding="utf-8")
    vocab = tokenization.read_vocab(path)
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
    with pytest.raises(tokenization.VocabularyError, match=expected):
        tokenization.read_vocab(path)


def test_a_missing_vocabulary_is_named(tmp_path):
    for path in (tmp_path / "gone.txt", tmp_path):
        with pytest.raises(tokenization.VocabularyError, match="cannot be read.*vocab.txt"):
            tokenization.read_vocab(path)


def real_texts():
    """Titles and abstracts of 300 real articles."""
    from data_prep import documents, pubmed

    citations = pubmed.read_citations(documents.shipped_files()[1])
    for _, citation in zip(range(300), citations, strict=False):
        yield citation.title
        yield from (text for _, text in citation.sections)


@pytest.mark.parametrize("lower_case", [True, False], ids=["uncased", "cased"])
def test_ids_are_those_of_others(pubmedbert_vocab, lower_case):
    """Equal to Hugging Face's BertTokenizer, and to Google's own in TF Model Garden."""
    import transformers
    from official.nlp.tools import tokenization as google

    vocab = tokenization.read_vocab(pubmedbert_vocab)
    assert len(vocab) == 28895
    ours = tokenization.wordpiece(vocab, lower_case)
    theirs = transformers.BertTokenizer(str(pubmedbert_vocab), do_lower_case=lower_case)
    original = google.FullTokenizer(str(pubmedbert_vocab), do_lower_case=lower_case)

    texts = list(real_texts())
    assert len(texts) > 600
    encoded = ours.encode_batch_fast(texts, add_special_tokens=False)
    for text, encoding in zip(texts, encoded, strict=True):
        assert encoding.ids == theirs(text, add_special_tokens=False)["input_ids"], text
        assert encoding.ids == original.convert_tokens_to_ids(original.tokenize(text)), text
    assert len({i for encoding in encoded for i in encoding.ids}) > 3000
