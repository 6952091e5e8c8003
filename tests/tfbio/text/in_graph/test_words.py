"""Words in the graph are those of `words.spans`, and their tokens those of fine-tuning."""

import pytest
import tensorflow as tf

from tfbio.task_types import words
from tfbio.text import tokenization, vocabularies
from tfbio.text.in_graph import tokenization as graph_tokenization
from tfbio.text.in_graph import words as graph_words


@pytest.mark.parametrize("rule", ["symbols", "punctuation", "blanks"])
def test_words_and_their_places(rule, sentences, awkward_texts, characters):
    texts = [*sentences, *awkward_texts, *(f"a{char}A" for char in characters)]
    texts += ["Fluad\u00ae 5\u00b12", "\u00ae\u2122\u0301x"]
    # What decides whether "s" or a comma ends a word.
    texts += [f"a{behind}{char}" for char in characters[::5] for behind in ("'s", ",", ".")]
    of_texts = tf.function(lambda x: graph_words.of_texts(x, rule), autograph=False)
    found = of_texts(tf.constant(texts))
    places = [(row, *span) for row, text in enumerate(texts) for span in words.spans(text, rule)]
    columns = (found.text, found.start, found.end)
    assert list(zip(*(x.numpy().tolist() for x in columns), strict=True)) == places
    expected = [texts[row][start:end] for row, start, end in places]
    assert [word.decode() for word in found.words.numpy()] == expected


@pytest.mark.parametrize("kind", ["wordpiece", "byte_bpe", "albert", "unigram"])
def test_tokens_of_words(kind, vocabulary_of_kind, sentences, awkward_texts, tmp_path):
    path = vocabularies.copy_vocabulary(vocabulary_of_kind[kind], tmp_path)
    theirs = tokenization.load_tokenizer(path)
    own = [word for text in [*sentences[::4], *awkward_texts] for word in text.split()]
    # Of "A\u030a", `tokenizers` drops the ring where a model folds case itself.
    own = sorted({*own, "\x07", "\u0301"} - {"A\u030a"})
    ours = graph_tokenization.load(path, lower_case=True)
    unk_id = theirs.unk_id
    tokens = tf.function(lambda x: graph_words.tokens(ours, x, unk_id), autograph=False)
    found = tokens(tf.constant(own)).to_list()
    assert found == theirs.encode_words(own)
    assert ([unk_id] in found) == (kind != "byte_bpe")


def test_accents_behind_a_place():
    texts = ["e\u0301\u0301 e\u0301", "e\u0301", "", "ab"]
    found = graph_words.marks_after(tf.constant(texts), tf.constant([1, 1, 0, 2]))
    assert found.numpy().tolist() == [2, 1, 0, 0]
