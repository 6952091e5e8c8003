"""Reads what a step of `train_hugging_face.py` sees: blocks of documents, or tfbio's rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from tfbio.base import file_paths, storage
from tfbio.base.document_records import read_documents
from tfbio.base.errors import UserError
from tfbio.base.held_out import is_held_out
from tfbio.base.manifests import MANIFEST, read_manifest
from tfbio.text.fast_tokenizer import load_fast_tokenizer

# The arguments of `transformers.BertModel`, B rows of L tokens: `input_ids`, int64 [B, L]; of rows
# also `token_type_ids` and `position_ids`, int64 [B, L], and `attention_mask`, bool [B, 1, L, L],
# True where a token sees another one.
Batch = dict[str, torch.Tensor]


class Blocks:
    """Documents one after another, cut into blocks without padding, as `run_mlm` has them.

    Every token sees its whole block.

    Args:
      documents: a folder that `data_prep.documents` wrote.
      examples: a folder that `data_prep.examples` made of them.
    """

    def __init__(self, documents: str, examples: str) -> None:
        self.documents, self.examples = documents, examples

    def read(self, split: str) -> np.ndarray:
        """Encodes documents, and cuts them into blocks.

        As `group_texts` of `run_mlm` does with texts that have their [CLS] and [SEP].

        Args:
          split: "train", or "heldout", the articles that the examples hold out.

        Returns:
          int64 [blocks, sequence_length]; the tokens after the last whole block are left out.

        Raises:
          UserError: the examples are not of these documents.
        """
        of = read_manifest(self.examples, "examples").settings
        if of["documents_sha256"] != storage.sha256_of(file_paths.at(self.documents, MANIFEST)):
            raise UserError(
                f"--examples={self.examples} was made of other documents than "
                f"--documents={self.documents}."
            )
        encoder = load_fast_tokenizer(Path(self.examples, "vocab.txt"), of["lower_case"])
        texts: list[np.ndarray | list[int]] = []
        for document in read_documents(self.documents):
            if is_held_out(document.article, of["held_out_fraction"]) == (split == "heldout"):
                ids, _ = encoder([text.encode() for text in (document.title, *document.sentences)])
                texts += [[encoder.cls_id], ids, [encoder.sep_id]]
        ids, length = np.concatenate(texts), of["sequence_length"]
        return ids[: len(ids) // length * length].reshape(-1, length).astype(np.int64)

    def training(self, size: int, seed: int, first_step: int, last_step: int) -> Iterator[Batch]:
        """Yields the batches of the steps from `first_step` to before `last_step`.

        Args:
          size: blocks of a batch.
          seed: keys the order.
          first_step: the step at which a run begins or continues.
          last_step: the step at which it ends.

        Raises:
          UserError: there are fewer blocks than a batch has.
        """
        blocks = self.read("train")
        if len(blocks) < size:
            raise UserError(f"{self.examples} has {len(blocks)} blocks, fewer than a batch.")
        for ids in order(blocks, size, seed, first_step, last_step):
            yield {"input_ids": torch.from_numpy(ids)}

    def held_out(self, size: int, batches: int) -> Iterator[Batch]:
        """Yields at most so many whole batches of the held-out articles, in their order."""
        blocks = self.read("heldout")
        for number in range(min(batches, len(blocks) // size)):
            yield {"input_ids": torch.from_numpy(blocks[number * size : (number + 1) * size])}


class Rows:
    """The rows that `run_pretraining.py` reads, in the same order.

    Each document sees only itself, its positions begin at 0, and some are in two segments.

    Args:
      examples: a folder that `data_prep.examples --packing` wrote.

    Raises:
      UserError: the examples are not packed.
    """

    def __init__(self, examples: str) -> None:
        # TensorFlow is not loaded where blocks are read.
        from tfbio.runs import pretraining_data

        self.examples, self._reader = examples, pretraining_data
        self._manifest = read_manifest(examples, "examples")
        if not self._manifest.settings["packing"]:
            raise UserError(
                f"--examples={examples} was not made with --packing, which --rows is about."
            )

    def training(self, size: int, seed: int, first_step: int, last_step: int) -> Iterator[Batch]:
        """Yields the batches of some steps, of `size` rows each; see `Blocks.training`."""
        data = self._reader.training_dataset(
            self.examples, self._manifest, size, seed, first_step, last_step
        )
        for row in data.as_numpy_iterator():
            yield _batch(row)

    def held_out(self, size: int, batches: int) -> Iterator[Batch]:
        """Yields at most so many whole batches of the held-out articles, in their order."""
        data = self._reader.held_out_dataset(self.examples, self._manifest, size)
        for row in data.take(batches).as_numpy_iterator():
            yield _batch(row)


def order(
    blocks: np.ndarray, size: int, seed: int, first_step: int, last_step: int
) -> Iterator[np.ndarray]:
    """Yields the blocks of the steps from `first_step` to before `last_step`, [size, L] each.

    Args:
      blocks: [N, L]; each is read once an epoch, in an order that seed and epoch fix.
      size: blocks of a batch.
      seed: keys the order.
      first_step: the step at which a run begins or continues.
      last_step: the step at which it ends.
    """
    in_an_epoch, epoch, permutation = len(blocks) // size, -1, np.arange(0)
    for step in range(first_step, last_step):
        if step // in_an_epoch != epoch:
            epoch = step // in_an_epoch
            permutation = np.random.default_rng([seed, epoch]).permutation(len(blocks))
        number = step % in_an_epoch
        yield blocks[permutation[number * size : (number + 1) * size]]


def _batch(row: dict[str, np.ndarray]) -> Batch:
    """Returns a batch of rows as `transformers` names its parts."""
    documents = torch.tensor(row["document_ids"])
    return {
        "input_ids": torch.tensor(row["input_ids"]).long(),
        "token_type_ids": torch.tensor(row["segment_ids"]).long(),
        "position_ids": torch.tensor(row["position_ids"]).long(),
        "attention_mask": documents[:, None, :, None] == documents[:, None, None, :],
    }
