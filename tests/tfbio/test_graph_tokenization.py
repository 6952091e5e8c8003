"""The tokenizers in the graph give what those before training gave, character by character."""

import pytest
import sentencepiece
import tensorflow as tf

from tfbio import graph_tokenization, records, tokenization, words

HARD = [
    "",
    " ",
    "a" * 100,
    "a" * 101,
    "\u00e9" * 100,
    "\u00e9" * 101,
    "\U0001d6fc" * 101,
    "na\u00efve cafe\u0301 \u0130stanbul \u1e9e \u03a3\u03c2 A\u030a\u0323",
    "10\u207b\u00b2 cm\u00b2 \u2460 \u00b5m \ufb01n \u212b",
    "\u65e5\u672c\u8a9eand\ud55c\uae00 \U00020000\U0002f800",
    "bell\x07 nul\0 zero\u200bwidth \ufffd\ufeff tab\tline\r\n\u00a0\u2028x",
    "[MASK] [CLS]text[SEP] [unused1] ##ing",
    "\u0301 \u0301a \U0001f9ec \ue000",
    "Crohn's 's dogs' 'said' 's's. (a.b.) e.g., 1,000: \"why?\").'",
    "It ended. ')\n",
]


@pytest.fixture(scope="module")
def texts(sentences):
    """Real ones; the hard ones; and characters, each between letters: all that are common."""
    codes = [*range(0x3400), *range(0x3400, 0x110000, 61)]
    letters = [f"a{chr(code)}A" for code in codes if not 0xD800 <= code < 0xE000]
    return [*sentences, *HARD, *letters]


@pytest.fixture(scope="module", params=[True, False], ids=["uncased", "cased"])
def both(request, vocab_file, tmp_path_factory):
    """Ours in the graph, and the tokenizer of training with its vocabulary."""
    vocab = tokenization.read_vocab(vocab_file)
    # Cased text must not be unknown throughout, nor letters with accents.
    more = [token.capitalize() for token in vocab if token.isalpha()]
    more += [chr(code) for code in range(0xA0, 0x250)]
    vocab = {token: number for number, token in enumerate(dict.fromkeys([*vocab, *more]))}
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    records.write_text(path, "\n".join(vocab) + "\n")
    unk_id = vocab[tokenization.UNK]
    ours = graph_tokenization.WordPiece(str(path), request.param, unk_id)
    return ours, tokenization.wordpiece(vocab, request.param), unk_id


def test_tokens_and_their_places(both, texts):
    ours, theirs, _ = both
    encoded = theirs.encode_batch(texts, add_special_tokens=False)
    found = tf.function(ours.with_places)(tf.constant(texts))
    for text, expected, ids, starts, ends in zip(
        texts, encoded, *(x.to_list() for x in found), strict=True
    ):
        assert ids == expected.ids, ascii(text)
        assert list(zip(starts, ends, strict=True)) == expected.offsets, ascii(text)
    assert ours(tf.constant(texts)).to_list() == found[0].to_list()


@pytest.mark.parametrize("rule", ["punctuation", "blanks"])
def test_words_and_their_tokens(both, texts, rule):
    ours, theirs, unk_id = both
    texts = [*texts[:1100], *texts[1100::17]]
    found = tf.function(lambda x: ours.words(x, rule))(tf.constant(texts))
    places = [(row, *span) for row, text in enumerate(texts) for span in words.spans(text, rule)]
    columns = (found.text, found.start, found.end)
    assert list(zip(*(x.numpy().tolist() for x in columns), strict=True)) == places
    parts = [texts[row][start:end] for row, start, end in places]
    encoded = theirs.encode_batch(parts, add_special_tokens=False)
    assert found.ids.to_list() == [each.ids or [unk_id] for each in encoded]


def test_accents_behind_a_place(both):
    texts = ["e\u0301\u0301 e\u0301", "e\u0301", "", "ab"]
    found = both[0].marks_after(tf.constant(texts), tf.constant([1, 1, 0, 2]))
    assert found.numpy().tolist() == [2, 1, 0, 0]


def test_sentencepiece(sentences, tmp_path):
    path = tmp_path / "vocab.model"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_prefix=str(path.with_suffix("")),
        vocab_size=400,
        control_symbols=["[CLS]", "[SEP]", "[MASK]", "<pad>"],
        minloglevel=2,
    )
    texts = [*sentences[:200], *HARD]
    ids, offsets = tokenization.load_encoder(path)(texts)
    expected = tf.RaggedTensor.from_row_splits(ids, offsets).to_list()
    assert graph_tokenization.SentencePiece(path)(tf.constant(texts)).to_list() == expected
