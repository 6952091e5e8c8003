"""WordPiece in the graph gives what that before training gave, character by character."""

import pytest
import tensorflow as tf

from tfbio.base import storage
from tfbio.text import wordpiece
from tfbio.text.in_graph import tokenization as graph_tokenization


@pytest.mark.parametrize("lower_case", [True, False], ids=["uncased", "cased"])
def test_tokens_and_their_places(
    lower_case, vocab_file, sentences, awkward_texts, characters, tmp_path
):
    vocab = wordpiece.read_vocab(vocab_file)
    # Cased text must not be unknown throughout, nor letters with accents.
    more = [token.capitalize() for token in vocab if token.isalpha()]
    more += [chr(code) for code in range(0xA0, 0x250)]
    vocab = {token: number for number, token in enumerate(dict.fromkeys([*vocab, *more]))}
    path = tmp_path / "vocab.txt"
    storage.write_text(path, "\r\n".join(vocab) + "\r\n")
    texts = [*sentences, *awkward_texts, *(f"a{char}A" for char in characters)]
    theirs = wordpiece.make_tokenizer(vocab, lower_case)
    encoded = theirs.encode_batch(texts, add_special_tokens=False)
    ours = graph_tokenization.load(path, lower_case)
    found = tf.function(ours.with_places, autograph=False)(tf.constant(texts))
    for text, expected, ids, starts, ends in zip(
        texts, encoded, *(x.to_list() for x in found), strict=True
    ):
        assert ids == expected.ids, ascii(text)
        assert list(zip(starts, ends, strict=True)) == expected.offsets, ascii(text)
    assert ours(tf.constant(texts)).to_list() == found[0].to_list()
