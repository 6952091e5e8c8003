"""Tests what Hugging Face's pretraining reads: blocks of documents, and tfbio's rows."""

import shutil

import numpy as np
import pytest
import torch
import transformers

from scripts.hugging_face_batches import Blocks, Rows, order
from tfbio.base.document_records import read_documents
from tfbio.base.errors import UserError
from tfbio.base.held_out import is_held_out
from tfbio.base.manifests import read_manifest
from tfbio.text.fast_tokenizer import load_fast_tokenizer


def test_blocks_are_whole_documents_in_a_row(documents_folder, examples_folder, tmp_path):
    """As `transformers` tokenizes them; those of an article are all in one split."""
    vocab = str(examples_folder / "vocab.txt")
    tokenizer = transformers.BertTokenizer(vocab, do_lower_case=True)
    expected = {"train": [], "heldout": []}
    for document in read_documents(documents_folder):
        split = "heldout" if is_held_out(document.article, 0.2) else "train"
        expected[split] += tokenizer(" ".join([document.title, *document.sentences])).input_ids
    of = str(documents_folder), str(examples_folder)
    for split, ids in expected.items():
        blocks = Blocks(*of).read(split)
        assert blocks.shape == (len(ids) // 64, 64) and len(blocks) > 20
        assert blocks.ravel().tolist() == ids[: blocks.size]
    others = tmp_path / "documents"
    shutil.copytree(documents_folder, others)
    with open(others / "manifest.json", "a") as stream:
        stream.write("\n")
    with pytest.raises(UserError, match="was made of other documents"):
        Blocks(str(others), of[1]).read("train")


def test_each_epoch_has_each_block_once_and_begins_anywhere():
    blocks = np.arange(10)[:, None]
    whole = [ids.ravel().tolist() for ids in order(blocks, 3, 0, first_step=0, last_step=6)]
    for epoch in (whole[:3], whole[3:]):
        assert len({row for batch in epoch for row in batch}) == 9
    assert whole[:3] != whole[3:]
    later = order(blocks, 3, 0, first_step=4, last_step=6)
    assert [ids.ravel().tolist() for ids in later] == whole[4:]


def test_too_few_blocks_are_refused(documents_folder, examples_folder):
    blocks = Blocks(str(documents_folder), str(examples_folder))
    with pytest.raises(UserError, match="fewer than a batch"):
        next(blocks.training(10_000, 0, 0, 1))


def test_rows_of_one_document_each_are_refused(examples_folder):
    with pytest.raises(UserError, match="was not made with --packing"):
        Rows(str(examples_folder))


def test_rows_begin_each_document_anew(packed_folder):
    """Each document has its [CLS] at position 0, and is seen by its own tokens alone."""
    rows, encoder = Rows(str(packed_folder)), load_fast_tokenizer(packed_folder / "vocab.txt")
    batches = [*rows.held_out(4, 3), *rows.training(4, 0, 0, 20)]
    assert len(batches) == 23
    shared = seconds = 0
    for batch in batches:
        ids = batch["input_ids"]
        assert ids.shape == (4, 64) and ids.dtype == torch.int64
        first = ids == encoder.cls_id
        documents = first.cumsum(1) * (ids != encoder.pad_id)
        shared += int((documents.max(1).values > 1).sum())
        expected = documents[:, :, None] == documents[:, None, :]
        assert torch.equal(batch["attention_mask"], expected[:, None])
        assert (batch["position_ids"][first] == 0).all()
        follows = ~first[:, 1:] & (ids[:, 1:] != encoder.pad_id)
        steps = batch["position_ids"].diff(dim=1)
        assert (steps[follows] == 1).all()
        segments = batch["token_type_ids"]
        assert (segments[first] == 0).all()
        # In a document the second segment follows the first.
        changes = segments.diff(dim=1)[follows]
        assert set(changes.unique().tolist()) <= {0, 1}
        seconds += int((changes == 1).sum())
    assert shared > 10 and seconds > 10


def test_an_epoch_has_each_row_once_and_begins_anywhere(packed_folder):
    rows = Rows(str(packed_folder))
    count = read_manifest(packed_folder, "examples").counts["train_examples"]
    whole = [batch["input_ids"] for batch in rows.training(1, 0, 0, count)]
    assert len(whole) == count
    texts = {tuple(ids.ravel().tolist()) for ids in whole}
    assert len(texts) > 0.9 * count  # a few texts are in the slice twice
    later = [batch["input_ids"] for batch in rows.training(1, 0, count - 5, count)]
    torch.testing.assert_close(torch.cat(later), torch.cat(whole[-5:]), rtol=0, atol=0)
