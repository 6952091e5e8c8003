"""Byte-level BPE in the graph gives what `tokenizers` gives."""

import json

import pytest
import tensorflow as tf

from tfbio.text import special_tokens, tokenization
from tfbio.text.in_graph import byte_bpe as graph_byte_bpe


def check(path, texts):
    """Whether tokens and their places are those of `tokenizers`."""
    ours = graph_byte_bpe.ByteBpe(path)
    found = tf.function(ours.with_places, autograph=False)(tf.constant(texts))
    encoded = tokenization.load_tokenizer(path).encode(texts)
    for text, expected, ids, starts, ends in zip(
        texts, encoded, *(x.to_list() for x in found), strict=True
    ):
        assert ids == expected.ids, ascii(text)
        assert list(zip(starts, ends, strict=True)) == expected.offsets, ascii(text)


def test_tokens_and_their_places(vocabulary_of_kind, sentences, awkward_texts, characters):
    texts = [*sentences, *awkward_texts, *(f"a{char}A {char} 1" for char in characters)]
    check(vocabulary_of_kind["byte_bpe"], texts)


def test_no_texts(vocabulary_of_kind):
    ours = graph_byte_bpe.ByteBpe(vocabulary_of_kind["byte_bpe"])
    for texts in ([], [""]):
        assert ours(tf.constant(texts, tf.string)).to_list() == [[]] * len(texts)


def write(folder, merges, drop=()):
    names = [name for name in graph_byte_bpe._byte_names() if name not in drop]
    tokens = [*special_tokens.BYTE_BPE_SPECIAL_TOKENS, *names, *map("".join, merges)]
    vocab = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    (folder / "vocab.json").write_text(json.dumps(vocab))
    (folder / "merges.txt").write_text("".join(f"{a} {b}\n" for a, b in merges))
    return folder / "vocab.json"


@pytest.mark.parametrize(
    "merges",
    [
        [],
        [("a", "a"), ("aa", "aa"), ("aa", "b")],
        # A merge makes what an earlier one takes, so that the first of two places is merged alone.
        [("ab", "a"), ("a", "b"), ("b", "a")],
        [("a", "b"), ("ab", "a"), ("b", "a"), ("a", "ba"), ("aba", "ab")],
    ],
    ids=["none", "runs", "backwards", "two_ways"],
)
def test_the_order_of_merges(merges, tmp_path):
    letters = [format(number, "b") for number in range(1, 2**8)]
    texts = [text.replace("0", "a").replace("1", "b") for text in letters]
    check(write(tmp_path, merges), [*texts, " ".join(texts)])


def test_a_vocabulary_without_a_byte_is_refused(tmp_path):
    with pytest.raises(special_tokens.VocabularyError, match="has no token for the byte 97, 'a'"):
        graph_byte_bpe.ByteBpe(write(tmp_path, [], drop="a"))
