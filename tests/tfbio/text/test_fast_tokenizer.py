"""The ids of the fast tokenizer, against those of other libraries."""

import io
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from tests import shipped_citations
from tests.tfbio.text.conftest import (
    AWKWARD,
    LONG,
    MARKS,
    PRIVATE,
    TEXT,
    differing,
    words_of,
)
from tfbio.text import sentencepiece_model, word_cache, wordpiece
from tfbio.text.fast_tokenizer import load_fast_tokenizer

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def all_words(tmp_path_factory):
    """Returns each word once, sorted: what stands between spaces in the titles and abstracts."""
    words = set()
    for citation in shipped_citations.read(tmp_path_factory):
        for text in (citation.title, *(text for *_, text in citation.sections)):
            words.update(text.split())
    return sorted(words)


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
        list(wordpiece.read_vocab(path)),
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


def special_ids(encoder):
    return sorted([encoder.pad_id, encoder.unk_id, encoder.cls_id, encoder.sep_id, encoder.mask_id])


@pytest.mark.parametrize("lower_case", [True, False], ids=["uncased", "cased"])
def test_ids_are_those_of_others(pubmedbert_vocab, some_texts, lower_case):
    """Equal to Hugging Face's two BertTokenizers and to Google's own, in Model Garden."""
    from official.nlp.tools import tokenization as google
    from transformers.models.bert import tokenization_bert_legacy as python

    encoder = load_fast_tokenizer(pubmedbert_vocab, lower_case)
    assert (encoder.kind, encoder.vocab_size) == ("wordpiece", 28895)
    vocab = wordpiece.read_vocab(pubmedbert_vocab)
    assert special_ids(encoder) == [0, 1, 2, 3, 4]
    texts = some_texts + AWKWARD
    assert len(some_texts) > 1300
    assert sum("[" in text for text in some_texts) > 100  # such as "[Article in German]"
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
def test_every_word_of_the_shipped_titles_and_abstracts(pubmedbert_vocab, all_words, lower_case):
    """Equal to BertTokenizer, and to tensorflow-text in a graph.

    BERT's tokenizers split at spaces first, so a word has the same ids in every text.
    """
    encoder = load_fast_tokenizer(pubmedbert_vocab, lower_case)
    assert len(all_words) > 370_000
    lines = [" ".join(all_words[i : i + 100]) for i in range(0, len(all_words), 100)]
    for others in (by_hugging_face, by_tensorflow_text):
        assert not differing(encoder, lines, others(pubmedbert_vocab, lower_case, lines))

    # What tensorflow-text does differently where it normalizes by itself: if uncased, it folds
    # case and compatibility forms ("\u2122" to "tm", "\u00b5" to "\u03bc", "\u00bd" to "1\u20442",
    # "\ufb01" to "fi", "\u2026" to "..."), and in any case it keeps invisible characters.
    def differing_alone(texts):
        alone = by_tensorflow_text(pubmedbert_vocab, lower_case, texts, normalizes=True)
        return differing(encoder, texts, alone)

    differs = " ".join(differing_alone(lines)).split()
    differs = differs and differing_alone(differs)
    # Documents have no invisible characters: none differ if cased.
    assert bool(differs) == lower_case
    for word in differs:
        assert any(invisible(char) or (lower_case and folds(char)) for char in word), word


def without_marks(text):
    return "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")


def folds(char):
    folded = unicodedata.normalize("NFKC", char).casefold()
    return without_marks(folded) != without_marks(char).lower()


def invisible(char):
    return unicodedata.category(char) in ("Cf", "Co")


def test_what_is_remembered_changes_nothing(pubmedbert_vocab, some_texts, monkeypatch):
    expected, _ = load_fast_tokenizer(pubmedbert_vocab)(some_texts)
    monkeypatch.setattr(word_cache, "_MOST_WORDS", 100)
    encoder = load_fast_tokenizer(pubmedbert_vocab)
    for _ in range(2):
        assert np.array_equal(encoder(some_texts)[0], expected)
    one_by_one = [encoder([text])[0] for text in some_texts]
    assert np.array_equal(np.concatenate(one_by_one), expected)
    ids, offsets = encoder([])
    assert len(ids) == 0 and offsets.tolist() == [0]


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
    assert special_ids(encoder) == [0, 3, 4, 5, 6]
    assert theirs.id_to_piece([encoder.pad_id, encoder.unk_id]) == ["<pad>", "<unk>"]
    assert theirs.id_to_piece([encoder.cls_id, encoder.mask_id]) == ["[CLS]", "[MASK]"]
    assert not differing(encoder, texts, map(theirs.encode, texts))
    assert list(map(theirs.decode, words_of(encoder, TEXT))) == TEXT.split()


def test_pieces_that_reach_over_a_space_are_found(vocabulary_of_kind, sentences, tmp_path):
    """As SentencePiece learns them when it is told not to split at whitespace."""
    import sentencepiece

    content = vocabulary_of_kind["bpe"].read_bytes()
    model = sentencepiece_model.ModelProto.FromString(content)
    model.pieces[-1].piece = "\u2581of\u2581the"
    path = tmp_path / "a.model"
    path.write_bytes(model.SerializeToString())
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(path))
    expected = [theirs.encode(text) for text in sentences]
    assert sum(ids.count(len(model.pieces) - 1) for ids in expected) > 100
    assert not differing(load_fast_tokenizer(path), sentences, expected)


def test_wordpiece_says_which_tokens_begin_a_word(pubmedbert_vocab):
    tokens = list(wordpiece.read_vocab(pubmedbert_vocab))
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
