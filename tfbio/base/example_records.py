"""How shards store pretraining examples, which have no masks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tfbio.base.tf_example import serialize_example

if TYPE_CHECKING:
    import numpy as np

# The objectives of data preparation whose examples have a label.
LABELLED_OBJECTIVES = ("next_sentence", "sentence_order")


@dataclasses.dataclass(frozen=True)
class ExampleFormat:
    """The format of the records of pretraining examples; all records of a folder have one size.

    A record is a `tf.train.Example`. All numbers are little-endian:

      input_ids: bytes of uint16 [sequence_length], or of int32 if the vocabulary has more than
        65,536 tokens; [PAD] after the last token.
      segment_lengths: bytes of uint16 [2 * documents], the lengths of the first and the second
        segment of each document, with their special tokens; zeros after the last.
      label: int64, if the objective has one; 1 if the second segment is another document's
        ("next_sentence") or the segments are swapped ("sentence_order"), else 0.

    Attributes:
      sequence_length: int, the tokens in an example.
      vocab_size: int, the number of ids.
      documents: int, the most documents in an example, each of which attends to itself alone.
      labelled: bool, True if examples have a label.
    """

    sequence_length: int
    vocab_size: int
    documents: int
    labelled: bool

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> ExampleFormat:
        """Returns the format of a folder's example records, which its manifest's settings give.

        Args:
          settings: those in the folder's manifest; `sequence_length`, `vocab_size`,
            `documents_per_example` and `objective` are read.

        Raises:
          KeyError: one of them is missing.
        """
        return cls(
            sequence_length=settings["sequence_length"],
            vocab_size=settings["vocab_size"],
            documents=settings["documents_per_example"],
            labelled=settings["objective"] in LABELLED_OBJECTIVES,
        )

    @property
    def id_type(self) -> str:
        """The NumPy type of an example record's token ids: "<u2" up to 65,536 ids, else "<i4"."""
        return "<u2" if self.vocab_size <= 1 << 16 else "<i4"

    @property
    def row_type(self) -> np.dtype:
        """The structured NumPy type of an example record, with fields in the order of their names.

        They are `input_ids`, `id_type` [sequence_length]; `label`, uint8 (only if `labelled`); and
        `segment_lengths`, uint16 [2 * documents].
        """
        import numpy as np

        label = [("label", "u1", ())] if self.labelled else []
        ids = ("input_ids", self.id_type, (self.sequence_length,))
        return np.dtype([ids, *label, ("segment_lengths", "<u2", (2 * self.documents,))])

    def serialize(self, rows: np.ndarray) -> Iterator[bytes]:
        """Yields the record of each pretraining example, a serialized `tf.train.Example`.

        The sizes of the features never change, so all records are one template with other numbers
        in the same places.

        Args:
          rows: array of `row_type` [rows], one row for each example.

        Yields:
          The bytes of a record, all of one size.
        """
        import numpy as np

        zeros, ones = (
            np.frombuffer(serialize_example(self._features(byte)), np.uint8) for byte in (0, 1)
        )
        places = np.flatnonzero(zeros != ones)
        for start in range(0, len(rows), 4096):
            block = rows[start : start + 4096]
            records = np.tile(zeros, (len(block), 1))
            records[:, places] = block.view(np.uint8).reshape(len(block), -1)
            size, data = records.shape[1], records.tobytes()
            for at in range(0, len(data), size):
                yield data[at : at + size]

    def _features(self, byte: int) -> dict[str, list]:
        """Returns features in which every byte, and the label, is the same number."""
        features = {}
        for name in self.row_type.names or ():
            size = self.row_type[name].itemsize
            features[name] = [byte] if name == "label" else [bytes([byte]) * size]
        return features
