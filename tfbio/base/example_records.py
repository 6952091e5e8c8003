"""The unmasked pretraining examples, as records of shards."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tfbio.base.example_codec import serialize_example

if TYPE_CHECKING:
    import numpy as np

# The objectives whose examples have a label.
LABELLED_OBJECTIVES = ("next_sentence", "sentence_order")


@dataclasses.dataclass(frozen=True)
class ExampleFormat:
    """Describes how records hold pretraining examples; all of one folder have the same size.

    A record is a `tf.train.Example`. All numbers are little-endian:

      input_ids: bytes; uint16, or int32 where the vocabulary has more than 65,536 tokens; as many
        as the sequence is long, [PAD] after the last token.
      segment_lengths: bytes, uint16; the length of the first and of the second segment of each
        document in the example, with their special tokens; zeros after the last.
      label: int64, only where the objective has one.

    Attributes:
      sequence_length: tokens in an example.
      vocab_size: number of ids.
      documents: how many documents an example may hold that are kept apart.
      labelled: whether there is a label.
    """

    sequence_length: int
    vocab_size: int
    documents: int
    labelled: bool

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> ExampleFormat:
        """The format of a folder of examples, from the settings in its manifest."""
        return cls(
            sequence_length=settings["sequence_length"],
            vocab_size=settings["vocab_size"],
            documents=settings["documents_per_example"],
            labelled=settings["objective"] in LABELLED_OBJECTIVES,
        )

    @property
    def id_type(self) -> str:
        """The NumPy type of the ids."""
        return "<u2" if self.vocab_size <= 1 << 16 else "<i4"

    @property
    def row_type(self) -> np.dtype:
        """An example as a NumPy record, with its features in the order of their names."""
        import numpy as np

        fields = [("input_ids", self.id_type, (self.sequence_length,))]
        if self.labelled:
            fields.append(("label", "u1"))
        return np.dtype([*fields, ("segment_lengths", "<u2", (2 * self.documents,))])

    def serialize(self, rows: np.ndarray) -> Iterator[bytes]:
        """Yields the record of each row: rows of `row_type` -> `tf.train.Example`s.

        The features' sizes never change, so all records are one template with other numbers in
        the same places.
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
        """Features of which every byte is the same, and so is the label."""
        features = {}
        for name in self.row_type.names:
            size = self.row_type[name].itemsize
            features[name] = [byte] if name == "label" else [bytes([byte]) * size]
        return features
