"""Sentence splitters: spaCy pipelines, stripped to what finds sentence boundaries."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from tfbio import cli

if TYPE_CHECKING:
    import spacy

# From the best to the one that is always there; `auto` takes the first that is installed.
# biosenter: boundary F1 0.989 on PMC articles, en_core_sci_sm 0.976 (as biosenter's authors
# measured it); pysbd, through scispaCy, is a set of rules.
BEST_FIRST = ("biosenter", "en_core_sci_sm", "scispacy")

# Components that say nothing about sentences.
_IDLE = ("tagger", "morphologizer", "attribute_ruler", "lemmatizer", "ner", "entity_linker")

# Texts in one call of the model: 8 to 128 are equally fast, 1 and 1,000 a quarter slower.
_BATCH = 64

# spaCy keeps every word that it has met. A pipeline that has met so many is loaded anew, between
# two streams of texts: half a second for a bound on memory. (`Language.memory_zone`, which also
# bounds it, turns the tokenizer's cache off, and takes a third longer.)
_MOST_WORDS = 1_000_000

Splitter = Callable[[Iterable[str]], Iterator[list[str]]]


def resolve(name: str) -> tuple[str, str]:
    """The splitter that a name stands for, and its version.

    Args:
      name: "auto", "scispacy", or an installed spaCy package.

    Raises:
      UserError: it is not installed.
    """
    if name == "auto":
        name = next((n for n in BEST_FIRST if importlib.util.find_spec(n)), "scispacy")
    try:
        return name, importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        raise cli.UserError(
            f"the sentence splitter {name!r} is not installed: `pip install {name}`, or choose "
            "auto, scispacy, or the name of an installed spaCy package."
        ) from None


def load(name: str) -> Splitter:
    """Loads a splitter: a function from texts to the sentences of each text, in order.

    Sentences are stripped of white space around them; none is empty, and nothing else is lost.

    Raises:
      UserError: the package is not a spaCy pipeline that finds sentences.
    """
    nlp = _pipeline(name)

    def split(texts: Iterable[str]) -> Iterator[list[str]]:
        nonlocal nlp
        if len(nlp.vocab.strings) > _MOST_WORDS:
            nlp = _pipeline(name)
        for doc in nlp.pipe(texts, batch_size=_BATCH):
            yield [text for sentence in doc.sents if (text := sentence.text.strip())]

    return split


def _pipeline(name: str) -> spacy.Language:
    """Loads a spaCy pipeline that does nothing but find sentences."""
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
        except (OSError, ValueError, AttributeError) as error:
            raise cli.UserError(f"{name!r} is not a spaCy pipeline: {error}") from error
        if not any(pipe in nlp.pipe_names for pipe in ("senter", "sentencizer", "parser")):
            raise cli.UserError(f"the spaCy pipeline {name!r} does not find sentences.")
    nlp.max_length = 1 << 30  # no abstract, however long, is refused
    nlp.tokenizer.max_cache_size = _MOST_WORDS
    return nlp
