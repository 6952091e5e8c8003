"""Makes the examples of some documents, as rows of token ids.

`example_shards.py` calls it in the workers, for one chunk of documents after another.
"""

from __future__ import annotations

import functools
import hashlib
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from typing import NamedTuple

import numba
import numpy as np

import tfbio
from data_prep.sentences import checked_tokenizer, packing, segments
from tfbio.base import batched
from tfbio.base.document_records import article_of
from tfbio.base.example_records import ExampleFormat
from tfbio.base.held_out import is_held_out
from tfbio.base.shards import Shard, read_shard
from tfbio.base.tf_example import bytes_features
from tfbio.text.fast_tokenizer import FastTokenizer

OBJECTIVES = ("electra", "next_sentence", "sentence_order", "full_sentences")
PACKED_OBJECTIVES = ("electra", "full_sentences")
SPLITS = ("train", "heldout")

# Documents are worked on together until they have so many bytes: about a million tokens.
# Twice as many take twice the memory, a quarter as many pack a little worse.
CHUNK = 4_000_000


class Document(NamedTuple):
    """The text of a document from which rows of examples are made, as read from a shard.

    Attributes:
      id: the id of the document; its part before a "#" is the article's.
      texts: its title and then its sentences, each as bytes in UTF-8.
    """

    id: str
    texts: list[bytes]


class Job(NamedTuple):
    """The settings with which all workers of a run make rows of examples.

    Attributes:
      vocab: the path of the vocabulary.
      vocab_sha256: the SHA-256 of the vocabulary, in hexadecimal.
      lower_case: True to lower-case the text and strip accents, with a WordPiece vocabulary.
      objective: "electra", "next_sentence", "sentence_order" or "full_sentences".
      packing: True to put several documents into an example.
      form: the format of a row; `form.row_type` is its NumPy type.
      held_out_fraction: the share of the articles that is kept out of training, from 0 to 1.
      shards: the number of shards to write for "train" and for "heldout".
      seed: starts all random draws.
      tfbio_version: the version of tfbio where the command was given.
    """

    vocab: str
    vocab_sha256: str
    lower_case: bool
    objective: str
    packing: bool
    form: ExampleFormat
    held_out_fraction: float
    shards: dict[str, int]
    seed: int
    tfbio_version: str = tfbio.__version__


@functools.lru_cache(maxsize=2)
def load_tokenizer(vocab: str, sha256: str, lower_case: bool) -> FastTokenizer:
    """Loads the tokenizer for making rows of examples, once in each worker process.

    Args:
      vocab: the path of the vocabulary.
      sha256: the SHA-256 of the vocabulary; it is only a part of the cache's key, because another
        run in this process may have another file at `vocab`.
      lower_case: True to lower-case text and strip accents, with a WordPiece vocabulary.

    Returns:
      The `FastTokenizer`, which called with texts returns their ids and the borders between them.

    Raises:
      VocabularyError: `vocab` is not a vocabulary.
      UsageError: it is one of cased text, and text is to be lower-cased, or the other way round.
    """
    return checked_tokenizer.load(vocab, lower_case)


def chunks(documents: str, shard: Shard) -> Iterator[list[Document]]:
    """Reads a shard of documents in chunks, from each of which rows of examples are made together.

    Args:
      documents: the folder of documents.
      shard: one of its shards.

    Yields:
      A list of at least one `Document`, in the order of the shard. A list ends with the document
      that takes it to `CHUNK` bytes of text (4,000,000); the last list may be shorter.

    Raises:
      DataError: the shard is missing, damaged or cut short.
      google.protobuf.message.DecodeError: a record is not a `tf.train.Example`.
    """
    every = map(_document, read_shard(documents, shard))
    return batched.by_size(every, lambda document: sum(map(len, document.texts)), CHUNK)


def _document(record: bytes) -> Document:
    """Returns the text of the document in a record of a shard."""
    id_, title, sentences = bytes_features(record, ("id", "title", "sentences"))
    return Document(id_[0].decode(), title + sentences)


def build_rows(
    documents: Sequence[Document], job: Job, counts: Counter[str]
) -> dict[str, np.ndarray]:
    """Makes the examples of some documents, as rows of token ids for each split.

    A document without tokens gives no example. Each article is in one split only, "train" or
    "heldout", which depends on its id.

    Args:
      documents: are packed together, and take second segments from each other.
      job: how to make examples.
      counts: changed in place: the counts are added of documents ("documents", "train_documents",
        "heldout_documents"), of the pieces of examples ("pieces"), and of tokens ("tokens",
        "special_tokens", "unknown_tokens", "document_tokens", "dropped_tokens").

    Returns:
      A dict with the keys "train" and "heldout". Each value is a structured array of
      `job.form.row_type` [examples], in no particular order, with the fields `input_ids` (uint16 or
      int32 [sequence_length]), `segment_lengths` (uint16 [2 * documents in an example]) and, where
      the objective has labels, `label` (uint8).

    Raises:
      VocabularyError: `job.vocab` is not a vocabulary.
    """
    tokenizer = load_tokenizer(job.vocab, job.vocab_sha256, job.lower_case)
    ids, offsets = tokenizer([text for document in documents for text in document.texts])
    bounds = _bounds(offsets, [len(document.texts) for document in documents])
    # See segments.CLS and SEP.
    ids = np.concatenate([ids, np.array([tokenizer.cls_id, tokenizer.sep_id], np.int32)])
    used = np.zeros(len(ids), bool)
    by_split: dict[str, list[tuple[str, segments.Bounds]]] = {split: [] for split in SPLITS}
    for document, own in zip(documents, bounds, strict=True):
        if len(own) > 1:
            article = article_of(document.id)
            held_out = is_held_out(article, job.held_out_fraction)
            by_split["heldout" if held_out else "train"].append((document.id, own))
    rows = {}
    for split, chosen in by_split.items():
        examples = list(_examples(chosen, split, job)) if chosen else []
        rows[split] = _lay_out(examples, ids, used, job.form, tokenizer.pad_id)
        padding, special, unknown = (
            sum(int(np.count_nonzero(rows[split]["input_ids"] == id_)) for id_ in those)
            for those in (
                [tokenizer.pad_id],
                [tokenizer.cls_id, tokenizer.sep_id],
                [tokenizer.unk_id],
            )
        )
        counts[f"{split}_documents"] += len(chosen)
        counts["pieces"] += sum(map(len, examples))
        counts["tokens"] += rows[split]["input_ids"].size - padding - special
        counts["special_tokens"] += special
        counts["unknown_tokens"] += unknown
    counts["documents"] += len(documents)
    counts["document_tokens"] += len(ids) - 2
    counts["dropped_tokens"] += int(np.count_nonzero(~used[:-2]))
    return rows


def _bounds(offsets: np.ndarray, texts: Sequence[int]) -> list[list[int]]:
    """Returns where the sentences of each document begin and end among all ids, without empty ones.

    Args:
      offsets: int64 [texts + 1], where each text of all documents begins and ends.
      texts: how many texts each document has.
    """
    filled = np.diff(offsets) > 0
    limits = [*offsets[:-1][filled].tolist(), int(offsets[-1])]
    before = np.concatenate([[0], np.cumsum(filled)])  # filled texts before each text
    ends = before[list(accumulate(texts, initial=0))].tolist()
    return [limits[a : b + 1] for a, b in zip(ends, ends[1:], strict=False)]


def _examples(
    documents: Sequence[tuple[str, segments.Bounds]], split: str, job: Job
) -> Iterator[list[segments.Piece]]:
    """Yields the pieces of each example of a chunk; the draws depend on the seed and the chunk."""
    length = job.form.sequence_length
    rng = random.Random(key(job.seed, split, documents[0][0]))
    bounds = [bounds for _, bounds in documents]
    if job.packing:
        yield from packing.pack(bounds, length, rng, pairs=job.objective == "electra")
    elif job.objective == "full_sentences":
        yield from ([piece] for piece in segments.full_sentences(bounds, length))
    else:
        for index, own in enumerate(bounds):
            if job.objective == "electra":
                pieces = segments.electra(own, length, rng)
            elif job.objective == "sentence_order":
                pieces = segments.sentence_order(own, length, rng)
            else:
                pieces = segments.next_sentence(bounds, index, length, rng)
            yield from ([piece] for piece in pieces)


def _lay_out(
    examples: Sequence[Sequence[segments.Piece]],
    ids: np.ndarray,
    used: np.ndarray,
    form: ExampleFormat,
    pad_id: int,
) -> np.ndarray:
    """Writes examples out as rows of token ids, with padding after the last token.

    Args:
      examples: the pieces of each example, as spans of `ids`.
      ids: int32 [ids], of which the pieces are spans; the last two are [CLS] and [SEP].
      used: bool [ids], changed in place: set to True where an id is in an example.
      form: the format of a row.
      pad_id: the id after the last token of an example.

    Returns:
      A structured array of `form.row_type` [examples], in the order of `examples`; see
      `build_rows`.
    """
    spans: list[segments.Span] = []
    segment_of: list[int] = []  # for each span its segment; those of an example follow each other
    for number, pieces in enumerate(examples):
        segment = number * 2 * form.documents
        for first, second, _ in pieces:
            spans += (segments.CLS, *first, segments.SEP)
            segment_of += [segment] * (len(first) + 2)
            if second:
                spans += (*second, segments.SEP)
                segment_of += [segment + 1] * (len(second) + 1)
            segment += 2
    input_ids = np.full((len(examples), form.sequence_length), pad_id, form.id_type)
    segment_lengths = np.zeros((len(examples), 2 * form.documents), np.uint16)
    places = np.fromiter(chain.from_iterable(spans), np.int64, 2 * len(spans)).reshape(-1, 2)
    _copy_spans(places, np.array(segment_of, np.int64), ids, used, input_ids, segment_lengths)
    rows = np.zeros(len(examples), form.row_type)
    rows["input_ids"] = input_ids
    rows["segment_lengths"] = segment_lengths
    if form.labelled:
        rows["label"] = [pieces[0].label for pieces in examples]
    return rows


@numba.njit
def _copy_spans(
    spans: np.ndarray,
    segment_of: np.ndarray,
    ids: np.ndarray,
    used: np.ndarray,
    input_ids: np.ndarray,
    segment_lengths: np.ndarray,
) -> None:
    """Copies spans of `ids` to the rows of their segments; counts and marks the copied ids."""
    row = at = -1
    for span in range(len(spans)):
        its_row, segment = divmod(segment_of[span], segment_lengths.shape[1])
        if its_row != row:
            row, at = its_row, 0
        begin, end = spans[span]
        segment_lengths[row, segment] += end - begin
        for place in range(begin, end):
            input_ids[row, at] = ids[place]
            used[place] = True
            at += 1


def key(*parts: object) -> int:
    """Computes the key of a random draw for rows of examples: an int from 0 to 2**64 - 1.

    It is the first 8 bytes of the SHA-256 of the parts, so it is the same on every machine.

    Args:
      *parts: what the draw depends on, such as the seed, the split and a document's id; they are
        joined as strings, with line feeds between.
    """
    digest = hashlib.sha256("\n".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big")
