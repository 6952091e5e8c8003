"""Runs spaCy's small sentence model only where a sentence can begin.

`splitters.py` uses it for pipelines that have only this model, such as biosenter: nine times as
many words a core-second as with spaCy's code (docs/benchmarks.md).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tfbio.base import batched
from tfbio.text import ragged

if TYPE_CHECKING:
    import spacy

# The tokens that `Senter` knows before it forgets them all: at most 460 bytes each.
_MOST_TOKENS = 100_000

# Characters of texts that `Senter` splits at once.
_AT_ONCE = 128_000

# Windows of tokens in one matrix product: 128 and 256 are equally fast.
_ROWS = 128

# The last bits of a matrix product's row depend on the rows around it: biosenter's scores of a
# token differ by up to 6e-6 between batches (195,100 tokens). Scores of "begins" and "does not"
# that are closer than this are computed anew, from the words around the token alone.
_NEAR_TIE = 1e-3

# A longer run without a space is read in parts: the tokenizer's time grows with its square.
_LONGEST_WORD = 1_000

# A sentence's last token matches the first (. ? ! or an ellipsis, but no decimal point); a token
# between it and the next sentence does not match the second.
_END = re.compile(r"[?!\u2026]|(?<!\d)\.|\.(?!\d)")
_LETTER = re.compile(r"[^\W\d_]")

# The tokenizer leaves the period on "IL-2R." and "NF-kappaB.", which then look like abbreviations:
# 105 of the 141 boundaries that biosenter misses in GENIA follow a capital; with this rule it
# misses 67 in all.
_PERIOD = r"(?<=[a-z0-9][A-Z])\.$"

# The model that `Senter` can read: spaCy's HashEmbedCNN without word vectors, and its Tagger.
_SENTER = re.compile(
    r"extract_features>>list2ragged>>with_array\((ints-getitem>>hashembed\|?)+\)"
    r">>with_array\(maxout>>layernorm>>dropout\)>>ragged2list>>with_array\("
    r"(residual\(expand_window>>maxout>>layernorm>>dropout\)(>>)?)+\)>>with_array\(softmax\)"
)

# Stands between texts. XML cannot hold the character.
_EDGE = " \0 "


def can_read(nlp: spacy.Language) -> bool:
    """Returns True if `Senter` can read a spaCy pipeline: English, with the `senter` model alone.

    Args:
      nlp: the pipeline, whose model must have the layers that `Senter` knows.
    """
    known = nlp.lang == "en" and nlp.pipe_names == ["senter"]
    return known and bool(_SENTER.fullmatch(_model(nlp).name))


def _model(nlp: spacy.Language) -> Any:
    """Returns the model in a pipeline's `senter`, a class without types."""
    senter: Any = nlp.get_pipe("senter")
    return senter.model


class Senter:
    """A splitter of texts by spaCy's `senter` model, asked only after a sentence-ending character.

    `split` yields the sentences of texts.

    spaCy's model decides for every token whether a sentence begins there, from the four tokens (in
    biosenter) on either side. Here it is asked only about tokens that follow one with . ? ! or an
    ellipsis in it (`_END`), at once or after one more without a letter: a bracket, a quote, a
    citation's number. Only these and the words around them are tokenized, and each word once:
    spaCy's tokenizer reads the characters between two spaces by themselves, and a token's vector,
    before its neighbours come in, depends only on four features of the token. So words are kept,
    and a vector for each combination of features.

    The tokenizer (with one rule more, `_PERIOD`), the vectors and the layers are spaCy's.
    `docs/benchmarks.md` has the gain in speed, and how many boundaries differ: those where the
    model begins a sentence without one of these characters.

    Args:
      nlp: the pipeline, for which `can_read` is True; it is changed.
    """

    def __init__(self, nlp: spacy.Language):
        from spacy.attrs import IDS
        from spacy.tokenizer import Tokenizer

        self._nlp = nlp
        self._model = model = _model(nlp)
        embed, encode = model.get_ref("tok2vec").layers
        self._features = embed.layers[0].attrs["columns"]
        # spaCy computes 23 properties of every new word (does it look like an address?), of which
        # the model reads 4: without the others a new word takes half the time.
        vocab: Any = nlp.vocab  # its types lack the getters
        getters = vocab.lex_attr_getters
        vocab.lex_attr_getters = {IDS[f]: getters[IDS[f]] for f in self._features}
        # A new tokenizer reads its 400 special cases once; the old one would read them anew for
        # each of these functions that is set, which takes a sixth of a second.
        rules: Any = nlp.tokenizer
        suffixes = re.compile(f"{rules.suffix_search.__self__.pattern}|{_PERIOD}")
        nlp.tokenizer = Tokenizer(
            vocab,
            rules.rules,
            prefix_search=_unless_letters(rules.prefix_search, None),
            suffix_search=_unless_letters(suffixes.search, None),
            infix_finditer=_unless_letters(rules.infix_finditer, ()),
            token_match=rules.token_match,
            url_match=_unless_letters(rules.url_match, None),
            faster_heuristics=rules.faster_heuristics,
            max_cache_size=rules.max_cache_size,
        )
        self._hashed = embed.layers[2].layers[0]
        self._mixed = embed.layers[3].layers[0]
        self._convolutions = [residual.layers[0].layers for residual in encode.layers[0].layers]
        self._output = model.layers[-1].layers[0]
        self._reach = encode.attrs["pad"]  # tokens on either side; zeros beyond a text's ends
        self._lock = threading.Lock()  # Beam's runners may have several threads in one worker
        self._forget()

    def split(self, texts: Iterable[str]) -> Iterator[list[str]]:
        """Yields the sentences of each text by the `senter` model, in the order of the texts.

        Texts are taken from the stream about 128,000 characters at a time. Threads may call it at
        once.

        Args:
          texts: the texts, which may be a stream.

        Yields:
          For each text the list of its sentences, stripped of white space around them; none is
          empty, and a text without other characters has an empty list.
        """
        for batch in batched.by_size(texts, len, _AT_ONCE):
            with self._lock:
                starts = self._starts(_EDGE + _EDGE.join(batch) + _EDGE)
            begins = np.cumsum([len(_EDGE)] + [len(text) + len(_EDGE) for text in batch])
            cuts = np.searchsorted(starts, begins)
            for text, begin, (a, b) in zip(batch, begins.tolist(), pairwise(cuts), strict=False):
                yield cut(text, (starts[a:b] - begin).tolist())

    def _starts(self, text: str) -> np.ndarray:
        """Returns where sentences begin in texts between edges: int64 [starts], in characters."""
        words, begins = _words_near_ends(text, self._reach)
        if len(self._tokens) > _MOST_TOKENS:
            self._forget()
        unknown = [word for word in dict.fromkeys(words) if word not in self._known]
        if unknown:
            self._learn(unknown)

        # From words to their tokens: `vector` are rows of a table, `place` characters of `text`.
        known = np.fromiter(map(self._known.__getitem__, words), np.int64, len(words))
        first, count = self._words[known].T
        upto = np.cumsum(count)
        token = ragged.ranges(first, count)
        offset, ends, closes, vector = self._tokens[token].T
        place = np.repeat(begins, count) + offset

        can_begin = np.zeros(len(token), bool)
        can_begin[2:] = (ends[1:-1] | (closes[1:-1] & ends[:-2])).astype(bool)
        can_begin &= vector > 0  # a text's edge is no token
        asked = np.flatnonzero(can_begin)
        window = np.arange(-self._reach, self._reach + 1)
        scores = [np.zeros(0, np.float32)]
        for i in range(0, len(asked), _ROWS):
            seen = vector[asked[i : i + _ROWS, None] + window]
            scores.append(self._score(self._vectors[seen]))
        score = np.concatenate(scores)
        for i in np.flatnonzero(np.abs(score) < _NEAR_TIE):
            word = np.searchsorted(upto, asked[i] + window, side="right")
            # A text's edge is as long as the model sees: no word lies beyond it.
            around = [j for j in range(word[0], word[-1] + 1) if words[j] != _EDGE.strip()]
            at = around.index(word[self._reach])
            score[i] = self._score_alone([words[j] for j in around], at, int(offset[asked[i]]))
        return place[asked[score > 0]]

    def _score(self, x: np.ndarray) -> np.ndarray:
        """Scores whether a sentence begins with the middle token of a window.

        Args:
          x: float32 [rows, 2 * reach + 1, width], vectors of the windows' tokens.

        Returns:
          float32 [rows], the score of "begins" less that of "does not begin".
        """
        for expand, *layers in self._convolutions:
            size = expand.attrs["window_size"]
            rows, length, width = x.shape
            kept = length - 2 * size
            seen = [x[:, shift : shift + kept] for shift in range(2 * size + 1)]
            y = np.concatenate(seen, axis=2).reshape(rows * kept, -1)
            for layer in layers:
                y = layer.predict(y)
            x = x[:, size:-size] + y.reshape(rows, kept, width)
        does_not, does = self._output.predict(x[:, 0]).T
        return does - does_not

    def _score_alone(self, words: list[str], at: int, offset: int) -> float:
        """Scores the token `offset` characters into `words[at]` by spaCy's model."""
        with self._nlp.memory_zone():
            doc = self._nlp.tokenizer(" ".join(words))
            place = sum(len(word) + 1 for word in words[:at]) + offset
            i = next(token.i for token in doc if token.idx == place)
            does_not, does = self._model.predict([doc])[0][i]
        return does - does_not

    def _learn(self, words: list[str]) -> None:
        """Adds words to the tables: their tokens, and vectors of new features."""
        text = " ".join(words)
        with self._nlp.memory_zone():  # spaCy need not keep them
            doc = self._nlp.tokenizer(text)
            features = doc.to_array(self._features)
            place = np.array([token.idx for token in doc])
            tokens = [token.text for token in doc]
        lengths = np.array([len(word) for word in words])
        begins = np.cumsum(lengths + 1) - lengths - 1
        word = np.searchsorted(begins, place, side="right") - 1
        count = np.bincount(word, minlength=len(words))
        first = len(self._tokens) + np.cumsum(count) - count

        self._known.update((word, row) for row, word in enumerate(words, len(self._known)))
        self._words.append(np.stack([first, count], axis=1))
        # Matched in the word and not in the token, which may end in the midst of a number.
        marks = [match.start() for match in _END.finditer(text)]
        place_after = place + [len(token) for token in tokens]
        ends = np.searchsorted(marks, place_after) > np.searchsorted(marks, place)
        closes = [_LETTER.search(token) is None for token in tokens]
        row_of, before = self._row_of, len(self._row_of)
        rows = [row_of.setdefault(token.tobytes(), len(row_of)) for token in features]
        self._tokens.append(np.stack([place - begins[word], ends, closes, rows], axis=1))
        if len(row_of) > before:
            added = b"".join(islice(row_of, before, None))
            new = np.frombuffer(added, features.dtype).reshape(-1, features.shape[1])
            self._vectors.append(self._mixed.predict(self._hashed.predict(new)))

    def _forget(self) -> None:
        """Empties the tables, but for a text's edge: tokens of zeros, as many as the model sees."""
        width = self._mixed.get_dim("nO")
        self._known = {_EDGE.strip(): 0}
        self._words = _Table(np.array([[0, self._reach]]))
        self._tokens = _Table(np.zeros((self._reach, 4), np.int32))
        self._row_of = {b"": 0}
        self._vectors = _Table(np.zeros((1, width), np.float32))


class _Table:
    """Holds an array of rows to which rows can be added."""

    def __init__(self, rows: np.ndarray):
        self._rows = rows
        self._used = len(rows)

    def __len__(self) -> int:
        return self._used

    def __getitem__(self, index: np.ndarray) -> np.ndarray:
        return self._rows[index]

    def append(self, rows: np.ndarray) -> None:
        """Adds rows at the end."""
        while self._used + len(rows) > len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._rows[self._used : self._used + len(rows)] = rows
        self._used += len(rows)


def _unless_letters(search: Callable, nothing: object) -> Callable:
    """Returns a search that skips words of ASCII letters alone.

    None of the patterns of spaCy's English tokenizer, some of 12,000 characters, matches in them.

    Args:
      search: the tokenizer's search.
      nothing: the result where nothing matches.
    """
    return lambda text: nothing if text.isalpha() and text.isascii() else search(text)


def _words_near_ends(text: str, reach: int) -> tuple[list[str], np.ndarray]:
    """Returns the words around each place where a sentence can begin.

    A word is a run between spaces, or `_LONGEST_WORD` characters of it.

    Args:
      text: begins and ends with a space.
      reach: how many tokens the model sees on either side.

    Returns:
      The words, and the character at which each begins: int64 [words].
    """
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    space = codes == ord(" ")
    begins = np.flatnonzero(space[:-1] & ~space[1:]) + 1
    ends = np.flatnonzero(~space[:-1] & space[1:]) + 1
    marks = [match.start() for match in _END.finditer(text)]
    for i in np.flatnonzero(ends - begins > _LONGEST_WORD)[::-1]:
        parts = range(begins[i], ends[i], _LONGEST_WORD)
        begins = np.insert(begins, i + 1, parts[1:])
        ends = np.insert(ends, i, parts[1:])
        # At a cut, the end of a sentence in the word may be none in the part, or vice versa.
        marks += parts
    marked = np.searchsorted(begins, marks, side="right") - 1
    near = np.zeros(len(begins), bool)
    for shift in range(-reach, reach + 3):  # a sentence begins in the marked word or the next two
        near[np.clip(marked + shift, 0, len(near) - 1)] = True
    begins, ends = begins[near], ends[near]
    return [text[a:b] for a, b in zip(begins.tolist(), ends.tolist(), strict=True)], begins


def cut(text: str, starts: Iterable[int]) -> list[str]:
    """Cuts a text where the `senter` model, or another spaCy pipeline, lets sentences begin.

    Args:
      text: the text.
      starts: the offsets of the characters at which sentences begin, increasing.

    Returns:
      The parts as a list of strings, without the white space around them; none is empty.
    """
    ends = (0, *starts, len(text))
    return [part for a, b in pairwise(ends) if (part := text[a:b].strip())]
