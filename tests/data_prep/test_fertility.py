import gzip
from collections import Counter
from types import SimpleNamespace

import pytest

from data_prep import fertility, vocabulary
from tests import reference
from tfbio.base import errors
from tfbio.base.document_records import read_documents
from tfbio.base.manifests import read_manifest
from tfbio.text import wordpiece
from tfbio.text.fast_tokenizer import load_fast_tokenizer


@pytest.mark.parametrize(("task", "expected"), [("chem", 1.459), ("disease", 1.144)])
def test_known_figures(task, expected):
    """Inside the mentions of the training files, lines as words: two figures known beforehand."""
    encoder = load_fast_tokenizer(reference.PUBMEDBERT)
    path = reference.corpus(f"bc5cdr_{task}/blurb/train.tsv.gz")
    every, inside = fertility.mention_words(path)
    assert every.total() == 118170
    result = fertility.measure(encoder, inside)
    assert result.tokens_per_word == pytest.approx(expected, abs=0.0005)
    # Once more by hand: each line by itself, with Hugging Face's tokenizer.
    tokenizer = wordpiece.make_tokenizer(wordpiece.read_vocab(reference.PUBMEDBERT))
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        lines = [line.split() for line in stream if line.strip()]
    ids = [tokenizer.encode(word).ids for word, tag in lines if tag in "BI"]
    tokens = sum(map(len, ids))
    assert result.tokens_per_word == tokens / len(ids)
    assert result.whole == sum(len(word) == 1 and word != [1] for word in ids) / len(ids)
    assert result.unknown == sum(word.count(1) for word in ids) / tokens


@pytest.mark.parametrize(
    "bare, full",
    [
        ("ncbi_disease/blurb/test.tsv", "ncbi_disease/mtl_iob/test.tsv"),
        ("bc5cdr_chem/blurb/train.tsv.gz", "bc5cdr_chem/mtl_iob/train.tsv.gz"),
    ],
)
def test_full_tags_mark_the_same_words(bare, full):
    full = fertility.mention_words(reference.corpus(full))
    assert full == fertility.mention_words(reference.corpus(bare)) and full[1].total() > 900


@pytest.fixture(scope="module")
def byte_bpe(documents_folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("bpe") / "vocab.json"
    vocabulary.make_vocabulary(documents_folder, path, kind="byte_bpe", size=2000)
    return path


@pytest.fixture
def mentions(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("Naloxone\tB\nhydrochloride\tI\nreverses\tO\n\nthe\tO\n", encoding="utf-8")
    return path


def test_documents_are_measured_word_by_word(documents_folder, vocab_file, byte_bpe):
    words = fertility.document_words(documents_folder)
    assert words.total() == read_manifest(documents_folder, "documents").counts["words"]
    for path in (vocab_file, byte_bpe):
        encoder = load_fast_tokenizer(path)
        texts = [
            f" {text}" if encoder.kind == "byte_bpe" else text
            for document in read_documents(documents_folder)
            for text in (document.title, *document.sentences)
        ]
        ids, _ = encoder(texts)
        result = fertility.measure(encoder, words)
        assert result.tokens_per_word == len(ids) / words.total(), path
        assert result.unknown == (ids == encoder.unk_id).mean(), path
        assert 0.3 < result.whole < 1 < result.tokens_per_word < 3, path


def test_a_word_that_is_unknown_is_not_kept_whole(vocab_file):
    encoder = load_fast_tokenizer(vocab_file)
    result = fertility.measure(encoder, Counter({"patients": 2, "\u4e2d": 1, "\u6587": 1}))
    assert result == (1.0, 0.5, 0.5)


def test_the_command_prints_a_table(command, documents_folder, vocab_file, byte_bpe, mentions):
    output = mentions.with_name("fertility.md")
    done = command(
        "fertility",
        f"--vocab={vocab_file},{byte_bpe}",
        f"--documents={documents_folder}",
        f"--mentions={mentions}",
        f"--output={output}",
    )
    assert done.returncode == 0, done.stderr
    assert output.read_text() == done.stdout
    table, definition = done.stdout.split("\n\n")
    assert definition.startswith("A word of documents is a run between whitespace")
    head, _, *rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.split("\n")]
    assert head[0] == "vocabulary" and head[5:] == [
        "tokens per word",
        "words kept whole",
        "tokens unknown",
    ]
    assert [row[1] for row in rows] == ["wordpiece"] * 3 + ["byte_bpe"] * 3
    assert [row[4] for row in rows[1:3]] == ["4", "2"]
    every, inside = fertility.mention_words(mentions)
    assert inside == {"Naloxone": 1, "hydrochloride": 1}
    result = fertility.measure(load_fast_tokenizer(vocab_file), inside)
    assert rows[2][5] == f"{result.tokens_per_word:.3f}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"Naloxone\n", "line 1: a word, a tab and its tag were expected"),
        (b"the\tO\n", "has no word inside of a mention"),
        (b"\xff\tB\n", "line 1: this is not text in UTF-8"),
    ],
)
def test_bad_files_are_named(tmp_path, content, message):
    path = tmp_path / "train.tsv"
    path.write_bytes(content)
    with pytest.raises(errors.UserError, match=message):
        fertility.mention_words(path)


def test_a_damaged_archive_is_named(tmp_path):
    path = tmp_path / "train.tsv.gz"
    whole = gzip.compress(b"the\tB\n" * 99)
    for content in (whole[:-9], whole[:10] + b"\xff" * 9 + whole[19:]):
        path.write_bytes(content)
        with pytest.raises(errors.UserError, match="train.tsv.gz cannot be read"):
            fertility.mention_words(path)


def test_a_byte_order_mark_and_windows_line_ends_are_no_words(tmp_path):
    (tmp_path / "a.tsv").write_bytes("\ufeffthe\tO\r\n\r\nrat\tB\r\n".encode())
    assert fertility.mention_words(tmp_path / "a.tsv") == ({"the": 1, "rat": 1}, {"rat": 1})


def test_nothing_to_measure(vocab_file):
    with pytest.raises(errors.UserError, match="give --documents or --mentions"):
        fertility.report([str(vocab_file)])


def test_an_object_store_that_refuses_the_table_is_named(monkeypatch):
    """Its errors have a text, and no `strerror`."""

    def refuse(*_):
        raise OSError("the bucket is read-only")

    flag = SimpleNamespace(
        output="memory://a/b.md", vocab=[], lower_case=True, documents=None, mentions=[]
    )
    monkeypatch.setattr(fertility.flags, "FLAGS", flag)
    monkeypatch.setattr(fertility, "report", lambda *_: "a table")
    monkeypatch.setattr(fertility.storage, "write_text", refuse)
    with pytest.raises(errors.UserError, match="^cannot write .*b.md: the bucket is read-only.$"):
        fertility.main(["fertility"])
