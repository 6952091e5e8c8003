"""Reads the examples of Hugging Face's step of pretraining, before the clock starts."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def documents(folder: Path, sequence_length: int, pad_id: int) -> list[np.ndarray]:
    """Reads the encoded documents, one an example, cut and padded to the full length.

    Args:
      folder: with `ids.npy`, int32, all documents after each other, each with its [CLS] and [SEP],
        and `offsets.npy`, int64 [documents + 1], where each begins and ends.
      sequence_length: L, of an example.
      pad_id: [PAD].

    Returns:
      int64 [documents, L] each: the ids, and 1 for tokens and 0 for padding.
    """
    ids, offsets = (np.load(folder / f"{name}.npy") for name in ("ids", "offsets"))
    texts = np.split(ids, offsets[1:-1])
    rows = np.full([len(texts), sequence_length], pad_id, np.int64)
    mask = np.zeros_like(rows)
    for row, seen, text in zip(rows, mask, texts, strict=True):
        kept = text[:sequence_length].copy()
        kept[-1] = text[-1]  # [SEP] stays
        row[: len(kept)], seen[: len(kept)] = kept, 1
    return [rows, mask]


def blocks(folder: Path, sequence_length: int) -> np.ndarray:
    """Cuts all encoded documents, one after another, into blocks of the full length.

    As `group_texts` of `transformers`' run_mlm.py, which drops what is left at the end. A block
    begins and ends anywhere in a document.

    Args:
      folder: see `documents`.
      sequence_length: L, of a block.

    Returns:
      int32 [blocks, L], the ids, of which none is padding.
    """
    ids = np.load(folder / "ids.npy")
    return ids[: len(ids) // sequence_length * sequence_length].reshape(-1, sequence_length)


def pairs(examples: str, count: int) -> list[np.ndarray]:
    """Reads pairs of segments with a label, as tfbio's training does.

    Args:
      examples: a folder that `data_prep.examples` wrote.
      count: N, of examples.

    Returns:
      int64 [N, L] each: the ids, 1 for tokens and 0 for padding, and the segments; and int64 [N],
      the labels.
    """
    from tfbio.base.manifests import read_manifest
    from tfbio.runs import pretraining_data

    manifest = read_manifest(examples, "examples")
    data = pretraining_data.training_dataset(examples, manifest, count, 0, 0, 1)
    batch = next(data.as_numpy_iterator())
    return [
        batch[name].astype(np.int64) for name in ("input_ids", "input_mask", "segment_ids", "label")
    ]
