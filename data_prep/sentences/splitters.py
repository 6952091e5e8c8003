"""Splits texts into sentences with spaCy pipelines, stripped to the parts that find boundaries.

Where spaCy is not installed, as without tfbio's extra `data`, pysbd's rules do it by themselves.
`load` returns a function from texts to their sentences. A text's sentences depend on that text
alone, not on the texts beside it, and no text is too long.

Any spaCy pipeline reads one text after another (`_split_texts`). `senter.py` is faster for a
pipeline that has only spaCy's small sentence model, as biosenter does: it asks the model's layers
about the few words that can begin a sentence and not about all of them.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from data_prep.sentences import senter
from tfbio.base import errors, idle_packages, messages

if TYPE_CHECKING:
    import spacy

# From the best on; `auto` takes the first that is installed, or else pysbd without spaCy.
# Boundary F1 on GENIA, whose boundaries people corrected: biosenter 99.6, scispacy (pysbd's rules)
# 98.8, at 16 times as many words a core-second (benchmarks/sentences.py; docs/benchmarks.md).
# en_core_sci_sm was not measured: it stands where biosenter's authors found it, below biosenter.
BEST_FIRST = ("biosenter", "en_core_sci_sm", "scispacy")
# The rules that scispacy has, which need no spaCy: prediction has them in every installation.
ALWAYS_INSTALLED = "pysbd"

# Components that do not affect sentences.
_IDLE = ("tagger", "morphologizer", "attribute_ruler", "lemmatizer", "ner", "entity_linker")

# spaCy keeps every word that it has met. A pipeline that has met so many is loaded anew, between
# two texts: half a second for a bound on memory. (`Language.memory_zone`, which also bounds it,
# turns the tokenizer's cache off, and takes a third longer.)
_MOST_WORDS = 1_000_000

# Characters that a pipeline reads at once, several times the longest abstract's.
_PIECE = 10_000
# The same for pysbd's rules, whose time grows with the square of the number of sentences: 10,000
# characters of "No. No. No." take more than a minute.
_PIECE_OF_RULES = 2_000

_WHITE_SPACE = re.compile(r"\s")

Splitter = Callable[[Iterable[str]], Iterator[list[str]]]
# Takes a text, and returns where its sentences begin, the first included.
_Boundaries = Callable[[str], list[int]]


def resolve(name: str) -> tuple[str, str]:
    """Returns the sentence splitter that a name such as "auto" stands for, and its version.

    Args:
      name: "auto" (the first installed one of biosenter, en_core_sci_sm, scispacy and pysbd),
        "scispacy", "pysbd", or an installed spaCy package.

    Returns:
      A pair of strings: the name of a package, and its version.

    Raises:
      UserError: it is not installed.
    """
    if name == "auto":
        installed = (n for n in BEST_FIRST if importlib.util.find_spec(n))
        name = next(installed, ALWAYS_INSTALLED)
    try:
        return name, importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        raise errors.UserError(
            f"--sentence_splitter={name}: no such package is installed: `pip install {name}`, or "
            "give auto, scispacy, or the name of an installed spaCy package."
        ) from None


def load(name: str) -> Splitter:
    """Loads one of the sentence splitters by the name of its package, as a function.

    Args:
      name: the name of a package, from `resolve`.

    Returns:
      A function that takes an iterable of texts and yields for each, in order, the list of its
      sentences. Sentences are stripped of white space around them; none is empty, and nothing else
      is lost. The texts may be a stream: some hundred are held at a time.

    Raises:
      UsageError: the package is not a spaCy pipeline that splits sentences.
    """
    if name == ALWAYS_INSTALLED:
        return lambda texts: (
            senter.cut(text, _starts(_pysbd, text, _PIECE_OF_RULES)) for text in texts
        )
    nlp = _pipeline(name)
    if senter.can_read(nlp):
        return senter.Senter(nlp).split
    return lambda texts: _split_texts(name, nlp, texts)


def _pysbd(text: str) -> list[int]:
    """Finds where sentences begin by pysbd's rules, without spaCy."""
    import pysbd

    # A new one for each text, since it keeps the text that it reads, and threads may read several.
    segmenter = pysbd.Segmenter(language="en", clean=False, char_span=True)
    # pysbd ends a sentence at every end of a line, and lines of plain text may be broken there.
    spans = segmenter.segment(_WHITE_SPACE.sub(" ", text))
    # It finds a sentence twice where the text has characters that it uses itself, such as U+222F.
    return list(itertools.accumulate((span.start for span in spans), max))


def _pipeline(name: str) -> spacy.Language:
    """Loads a spaCy pipeline, without its parts that do not find sentences."""
    # Another package may be one that needs PyTorch.
    with idle_packages.left_out() if name in BEST_FIRST else contextlib.nullcontext():
        import spacy
        from thinc.api import NumpyOps, set_current_ops

    if name == "scispacy":
        import scispacy.custom_sentence_segmenter  # noqa: F401  (registers the component)

        nlp = spacy.blank("en")
        nlp.add_pipe("pysbd_sentencizer")
    else:
        # numpy's matrix product is three times as fast as the one that thinc takes by default
        # (68 against 22 GFLOP/s on one core), which makes biosenter 1.6 times as fast.
        set_current_ops(NumpyOps(use_blis=False))
        try:
            nlp = spacy.load(name, exclude=_IDLE)
        # A package that is no pipeline has no `load`, or one that takes other arguments.
        except (OSError, ValueError, AttributeError, TypeError, ImportError) as error:
            reason = messages.cut(" ".join(str(error).split()), 150)
            raise errors.UsageError(
                f"--sentence_splitter={name}: it is not a spaCy pipeline ({reason})."
            ) from error
        if not any(pipe in nlp.pipe_names for pipe in ("senter", "sentencizer", "parser")):
            raise errors.UsageError(
                f"--sentence_splitter={name}: this spaCy pipeline does not find sentences."
            )
    tokenizer: Any = nlp.tokenizer
    tokenizer.max_cache_size = _MOST_WORDS
    return nlp


def _split_texts(name: str, nlp: spacy.Language, texts: Iterable[str]) -> Iterator[list[str]]:
    """Splits one text after another.

    In batches, which `Language.pipe` would make, a text's boundaries could depend on its batch.
    """
    piece = _PIECE_OF_RULES if name == "scispacy" else _PIECE
    for text in texts:
        if len(nlp.vocab.strings) > _MOST_WORDS:
            nlp = _pipeline(name)
        yield senter.cut(text, _starts(_spacy(nlp), text, piece))


def _spacy(nlp: spacy.Language) -> _Boundaries:
    """Returns a function that finds where sentences begin with a spaCy pipeline."""
    return lambda text: [sentence.start_char for sentence in nlp(text).sents]


def _starts(find: _Boundaries, text: str, piece: int) -> list[int]:
    """Returns the characters at which the sentences of a text begin, but for the first.

    A text longer than a piece is read in parts. The end of a part is no end of a sentence: the
    next part begins with the last sentence of the one before.
    """
    starts: list[int] = []
    begin = 0
    while begin < len(text):
        end = len(text)
        if end - begin > piece:
            end = text.rfind(" ", begin + 1, begin + piece) + 1 or begin + piece
        inner = [begin + start for start in find(text[begin:end])][1:]
        starts += inner
        begin = inner[-1] if inner and end < len(text) else end
        if begin == end < len(text):
            starts.append(end)
    return starts
