"""Documents as lists of sentences, and how shards store them."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterable, Iterator

from tfbio.base import storage
from tfbio.base.example_codec import parse_example, serialize_example
from tfbio.base.manifests import COMMANDS, read_manifest
from tfbio.base.shards import DataError, Shard, read_shard


@dataclasses.dataclass(frozen=True)
class Document:
    """One text of an article: its abstract or its full text. Texts are str.

    Attributes:
      id: a unique id. An abstract has that of its article, such as "pmid:123"; another text adds
        the name of its part, such as "pmid:123#body".
      source: the base name of the file that it was read from.
      title: the title of its article, which is not among the sentences; "" for a further abstract.
      sentences: list of the sentences, in order.
      sections: list with, for each sentence, the NLM category of its section, in upper case
        (BACKGROUND, OBJECTIVE, METHODS, RESULTS, CONCLUSIONS, UNASSIGNED), or "" without sections.
        In a full text, the titles of the sections around the sentence.
    """

    id: str
    source: str
    title: str
    sentences: list[str]
    sections: list[str]

    @property
    def article(self) -> str:
        """The id of its article ("pmid:123"), whose texts are held out together or not at all."""
        return article_of(self.id)

    def serialize(self) -> bytes:
        """Returns the document as a serialized `tf.train.Example`.

        Its features are lists of bytes in UTF-8: `id`, `source` and `title` with one element,
        `sentences` and `sections` with one for each sentence.
        """
        fields = {
            "id": [self.id],
            "source": [self.source],
            "title": [self.title],
            "sentences": self.sentences,
            "sections": self.sections,
        }
        return serialize_example({k: [x.encode() for x in v] for k, v in fields.items()})

    @classmethod
    def parse(cls, record: bytes) -> Document:
        """Reads the document in a record that `serialize` returned.

        Raises:
          DataError: the record is no `tf.train.Example`, or lacks a field of a document.
        """
        try:
            fields = {k: [x.decode() for x in v] for k, v in parse_example(record).items()}
            return cls(
                id=fields["id"][0],
                source=fields["source"][0],
                title=fields["title"][0],
                sentences=fields["sentences"],
                sections=fields["sections"],
            )
        except (LookupError, ValueError, AttributeError) as error:
            raise DataError(f"a record is no document ({error!r:.100})") from error


def article_of(document_id: str) -> str:
    """Returns the id of the article that a document belongs to: "pmid:123" for "pmid:123#body"."""
    return document_id.partition("#")[0]


def is_held_out(article: str, fraction: float) -> bool:
    """Returns True if an article is held out, which depends on its id alone.

    Pretraining's held-out text and the test articles of tasks made from the same documents are
    chosen by this one rule, so that no model is pretrained on the text that it is tested on.

    Args:
      article: the id of an article, such as "pmid:123".
      fraction: the share of articles to hold out, 0 to 1.
    """
    return hash_fraction(f"held-out {article}") < fraction


def hash_fraction(text: str) -> float:
    """Returns a number in [0, 1) that depends on the text alone, not on machine or run.

    It is the first 48 bits of the text's SHA-256, divided by 2**48.
    """
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") / 2**48


def read_documents(
    folder: str | os.PathLike, shards: Iterable[Shard] | None = None
) -> Iterator[Document]:
    """Yields the documents of a folder, shard by shard, in the order that they were written in.

    Args:
      folder: a folder that `data_prep.documents` wrote.
      shards: the shards to read; None: all that its manifest lists.

    Yields:
      A `Document` for each record.

    Raises:
      DataError: the folder or its manifest is missing or of another kind (only if `shards` is
        None); a shard is missing, damaged or cut short; or a record is no document. Raised when
        the iteration comes to it.
    """
    for shard in read_manifest(folder, "documents").shards if shards is None else shards:
        for number, record in enumerate(read_shard(folder, shard)):
            try:
                yield Document.parse(record)
            except DataError as error:
                path = storage.at(folder, shard.file)
                remedy = f"make it again with `{COMMANDS['documents']}`"
                raise DataError(f"{path}, record {number}: {error}: {remedy}.") from error
