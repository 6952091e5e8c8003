"""Documents as lists of sentences, and how shards store them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator

from tfbio.base import file_paths
from tfbio.base.errors import DataError
from tfbio.base.manifests import COMMANDS, read_manifest
from tfbio.base.shards import Shard, read_shard
from tfbio.base.tf_example import parse_example, serialize_example


@dataclasses.dataclass(frozen=True)
class Document:
    """The document in a record of data preparation: an article's abstract or full text.

    Attributes:
      id: a unique id. An abstract has that of its article, such as "pmid:123"; another text adds
        the name of its part, such as "pmid:123#body". An article's id has no "#" (`whole_id`).
      source: the base name of the file that it was read from.
      title: the title of its article, which is not among the sentences; "" for a further abstract.
      sentences: list of the sentences (str), in order.
      sections: list with, for each sentence, the NLM category of its section, in upper case
        (BACKGROUND, OBJECTIVE, METHODS, RESULTS, CONCLUSIONS, UNASSIGNED), or "" without sections.
        In a full text and its abstract, the titles of the sections around the sentence.
    """

    id: str
    source: str
    title: str
    sentences: list[str]
    sections: list[str]

    @property
    def article(self) -> str:
        """The id of a document record's article ("pmid:123"), whose texts are held out together."""
        return article_of(self.id)

    def serialize(self) -> bytes:
        """Returns the document as a record of a shard, the bytes of a `tf.train.Example`.

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
        """Reads the document of a record, the bytes that `serialize` returned.

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


def whole_id(text: str) -> str:
    """Returns an article's id in which "#" stands as "%23", so that no part of it names a text.

    `article_of` takes what stands after a "#" for the name of one of the article's texts.

    Args:
      text: the id, with the name of a file or an address that may have a "#".
    """
    return text.replace("#", "%23")


def article_of(document_id: str) -> str:
    """Returns the article's id (str) for a document record's id: "pmid:123" for "pmid:123#body"."""
    return document_id.partition("#")[0]


def read_documents(
    folder: str | os.PathLike, shards: Iterable[Shard] | None = None
) -> Iterator[Document]:
    """Reads the document records of a folder, shard by shard, in the order of their writing.

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
                path = file_paths.at(folder, shard.file)
                remedy = f"make it again with `{COMMANDS['documents']}`"
                raise DataError(f"{path}, record {number}: {error}: {remedy}.") from error
