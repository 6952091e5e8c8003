"""The ids of the fast tokenizer, against those of other libraries."""

import io
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from tests.tfbio.text.conftest import differing
from tfbio.text import tokenization, word_table
from tfbio.text.fast_tokenizer import load_fast_tokenizer

ROOT = Path(__file__).resolve().parents[3]


def texts_of(articles):
    """Titles and parts of abstracts of so many real articles of each shipped file; None: all."""
    from itertools import islice

    from data_prep.readers import input_files, pubmed

    found = []
    for path in input_files.shipped_files(".xml.gz"):
        for citation in islice(pubmed.read_citations(path), articles):
            found += [citation.title, *(text for *_, text in citation.sections)]
    return found


@pytest.fixture(scope="session")
def some_texts():
    return texts_of(400)


@pytest.fixture(scope="session")
def all_texts():
    return texts_of(None)


# What no tokenizer may stumble over, beside the real texts.
MARKS = "-\u0301a \u0301b c\u0301\u0327d e\u0327\u0301f (\u0338)=\u0338"


LONG = "A" * 100 + " " + "b" * 101 + " " + "\u00e9" * 101


PRIVATE = "\x00nul \ufffd replaced \ue000private"


AWKWARD = [
    "",
    " ",
    "  two  spaces ",
    "tab\tand\nlines\r\n",
    "a\x1cb\x1fc\x85d\x0be\x0cf",  # whitespace to Python; BERT removes it, and joins
    "a\u00a0b\u2009c\u2028d\u3000e\u200bf\ufeffg\u00adh",
    MARKS,
    "\u212b \u2260 \ufb01n \u0130stanbul stra\u00dfe \u00b5g/ml \u03a3\u03c3",
    "IL-2R\u03b1\u2013CD25+ (p<0.05), 5''-OH; \u201cquoted\u201d",
    "\u4e2d\u6587 and\u6587text \uac00\ub098 \U0001d6fd \U0001f600",
    "[MASK] [SEP][PAD] [CLS]x [UNK] <s> </s> <mask> <pad> <unk>",
    LONG,
    PRIVATE,
]


def by_hugging_face(path, lower_case, texts):
    import transformers

    tokenizer = transformers.BertTokenizer(str(path), do_lower_case=lower_case)
    # In text, "[MASK]" is text: as in Google's code, and unlike BertTokenizer's default.
    flags = {"add_special_tokens": False, "split_special_tokens": True}
    for first in range(0, len(texts), 2000):
        yield from tokenizer(texts[first : first + 2000], **flags)["input_ids"]


def by_tensorflow_text(path, lower_case, texts, normalizes=False):
    """In a graph, as an exported model does it.

    Left to normalize by itself, tensorflow-text folds case as Unicode's NFKC_Casefold does.
    """
    import tensorflow as tf
    import tensorflow_text

    tokenizer = tensorflow_text.FastBertTokenizer(
        list(tokenization.read_vocab(path)),
        lower_case_nfd_strip_accents=normalizes and lower_case,
        token_out_type=tf.int32,
    )

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def tokenize(strings):
        if not normalizes:
            strings = tf.strings.regex_replace(strings, r"[^\P{C}\t\n\r]|\x{fffd}", "")
            if lower_case:
                strings = tensorflow_text.normalize_utf8(strings, "NFD")
                strings = tf.strings.regex_replace(strings, r"\p{Mn}", "")
                strings = tf.strings.lower(strings, encoding="utf-8")
        return tokenizer.tokenize(strings)

    for first in range(0, len(texts), 2000):
        yield from tokenize(tf.constant(texts[first : first + 2000])).to_list()


@pytest.mark.parametrize("lower_case", [True, False], ids=["uncased", "cased"])
def test_ids_are_those_of_others(pubmedbert_vocab, some_texts, lower_case):
    """Equal to Hugging Face's two BertTokenizers and to Google's own, in Model Garden."""
    from official.nlp.tools import tokenization as google
    from transformers.models.bert import tokenization_bert_legacy as python

    encoder = load_fast_tokenizer(pubmedbert_vocab, lower_case)
    assert (encoder.kind, encoder.vocab_size) == ("wordpiece", 28895)
    vocab = tokenization.read_vocab(pubmedbert_vocab)
    assert encoder.special_ids == (0, 1, 2, 3, 4)
    texts = some_texts + AWKWARD
    assert len(some_texts) > 1300
    assert not differing(encoder, texts, by_hugging_face(pubmedbert_vocab, lower_case, texts))

    def by(basic, pieces):
        for text in texts:
            tokens = (token for word in basic.tokenize(text) for token in pieces.tokenize(word))
            yield [vocab[token] for token in tokens]

    # The one in Python composes characters first, so that cased text keeps "\u2260" in one piece.
    basic = python.BasicTokenizer(do_lower_case=lower_case)
    pieces = python.WordpieceTokenizer(vocab, "[UNK]", 100)
    differs = differing(encoder, texts, by(basic, pieces))
    assert differs == ([] if lower_case else [MARKS])
    # Google's gives up on words of 200 characters, not 100, and keeps private characters.
    original = google.FullTokenizer(str(pubmedbert_vocab), do_lower_case=lower_case)
    differs = differing(encoder, texts, by(original.basic_tokenizer, original.wordpiece_tokenizer))
    assert differs == [LONG, PRIVATE]


@pytest.mark.parametrize("lower_case", [True, False], ids=["uncased", "cased"])
def test_ids_are_those_of_a_graph(pubmedbert_vocab, some_texts, lower_case):
    encoder = load_fast_tokenizer(pubmedbert_vocab, lower_case)
    texts = some_texts + AWKWARD
    assert not differing(encoder, texts, by_tensorflow_text(pubmedbert_vocab, lower_case, texts))


@pytest.mark.slow
@pytest.mark.parametrize("lower_case", [True, False], ids=["uncased", "cased"])
def test_every_shipped_title_and_abstract(pubmedbert_vocab, all_texts, lower_case):
    """Equal to BertTokenizer, and to tensorflow-text in a graph."""
    encoder = load_fast_tokenizer(pubmedbert_vocab, lower_case)
    assert len(all_texts) > 100_000
    assert sum("[" in text for text in all_texts) > 10_000  # such as "[Article in German]"
    for others in (by_hugging_face, by_tensorflow_text):
        assert not differing(encoder, all_texts, others(pubmedbert_vocab, lower_case, all_texts))

    # What tensorflow-text does differently where it normalizes by itself: if uncased, it folds
    # case and compatibility forms ("\u2122" to "tm", "\u00b5" to "\u03bc", "\u00bd" to "1\u20442",
    # "\ufb01" to "fi", "\u2026" to "..."), and in any case it keeps invisible characters.
    alone = by_tensorflow_text(pubmedbert_vocab, lower_case, all_texts, normalizes=True)
    differs = differing(encoder, all_texts, alone)
    # 674 of 105,000 when this was written, and 0: documents have no invisible characters.
    assert bool(differs) == lower_case
    for text in differs:
        assert any(invisible(char) or (lower_case and folds(char)) for char in text), text


def without_marks(text):
    return "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")


def folds(char):
    folded = unicodedata.normalize("NFKC", char).casefold()
    return without_marks(folded) != without_marks(char).lower()


def invisible(char):
    return unicodedata.category(char) in ("Cf", "Co")


def test_what_is_remembered_changes_nothing(pubmedbert_vocab, some_texts, monkeypatch):
    expected, _ = load_fast_tokenizer(pubmedbert_vocab)(some_texts)
    monkeypatch.setattr(word_table, "_MOST_WORDS", 100)
    encoder = load_fast_tokenizer(pubmedbert_vocab)
    for _ in range(2):
        assert np.array_equal(encoder(some_texts)[0], expected)
    one_by_one = [encoder([text])[0] for text in some_texts]
    assert np.array_equal(np.concatenate(one_by_one), expected)
    ids, offsets = encoder([])
    assert len(ids) == 0 and offsets.tolist() == [0]


TEXT = "Immunohistochemistry showed hyperphosphorylated tau in 35 neurofibrillary tangles (p<0.05)."


def words_of(encoder, text):
    """The ids of a text, in lists that go on until a token begins a word."""
    ids, _ = encoder([text])
    starts = [i for i in range(1, len(ids)) if encoder.begins_word[ids[i]]]
    return [part.tolist() for part in np.split(ids, starts)]


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_sentencepiece_ids_are_the_library_s(some_texts, tmp_path, kind):
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(some_texts),
        model_writer=model,
        model_type=kind,
        vocab_size=2000,
        control_symbols=["[CLS]", "[SEP]", "[MASK]", "<pad>"],
        minloglevel=2,
    )
    path = tmp_path / "a.model"
    path.write_bytes(model.getvalue())
    encoder = load_fast_tokenizer(path)
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(path))
    texts = some_texts + AWKWARD
    assert (encoder.kind, encoder.vocab_size) == (kind, 2000)
    assert encoder.special_ids == (0, 3, 4, 5, 6)
    assert theirs.id_to_piece([encoder.pad_id, encoder.unk_id]) == ["<pad>", "<unk>"]
    assert theirs.id_to_piece([encoder.cls_id, encoder.mask_id]) == ["[CLS]", "[MASK]"]
    assert not differing(encoder, texts, map(theirs.encode, texts))
    assert list(map(theirs.decode, words_of(encoder, TEXT))) == TEXT.split()


def test_byte_bpe_ids_are_those_of_roberta(some_texts, tmp_path):
    import transformers
    from tokenizers import trainers

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = tokenization.byte_bpe()
    trainer = trainers.BpeTrainer(vocab_size=2000, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(some_texts, trainer)
    tokenizer.model.save(str(tmp_path))
    encoder = load_fast_tokenizer(tmp_path / "vocab.json")
    assert (encoder.kind, encoder.vocab_size) == ("byte_bpe", 2000)
    assert (encoder.cls_id, encoder.pad_id, encoder.sep_id) == (0, 1, 2)
    assert (encoder.unk_id, encoder.mask_id) == (3, 4)
    theirs = transformers.RobertaTokenizerFast.from_pretrained(tmp_path)
    texts = [text for text in some_texts + AWKWARD if "<mask>" not in text]
    encoded = theirs(texts, add_special_tokens=False)["input_ids"]
    assert not differing(encoder, texts, encoded)
    words = map(theirs.decode, words_of(encoder, TEXT))
    assert [word.strip() for word in words] == TEXT.split()


def test_wordpiece_says_which_tokens_begin_a_word(pubmedbert_vocab):
    tokens = list(tokenization.read_vocab(pubmedbert_vocab))
    words = words_of(load_fast_tokenizer(pubmedbert_vocab), "Unsegmentables, naive ones")
    pieces = ["".join(tokens[i].removeprefix("##") for i in word) for word in words]
    assert pieces == ["unsegmentables", ",", "naive", "ones"]


def test_encoding_does_not_need_tensorflow(pubmedbert_vocab):
    """It would cost 0.7 GB in each process that prepares data."""
    code = (
        "import sys; from tfbio.text import fast_tokenizer\n"
        f"encode = fast_tokenizer.load_fast_tokenizer({str(pubmedbert_vocab)!r})\n"
        "ids, _ = encode(['naïve T cells'])\n"
        "assert len(ids) == 3 and not {'tensorflow', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
