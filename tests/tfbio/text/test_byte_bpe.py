"""Byte-level BPE, against RoBERTa's tokenizer."""

import json
import re

import pytest

from tests.tfbio.text.conftest import AWKWARD, TEXT, differing, words_of
from tfbio.text import byte_bpe, tokenization
from tfbio.text.fast_tokenizer import load_fast_tokenizer
from tfbio.text.special_tokens import VocabularyError


def test_byte_bpe_ids_are_those_of_roberta(some_texts, tmp_path):
    import transformers
    from tokenizers import trainers

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = byte_bpe.make_tokenizer()
    trainer = trainers.BpeTrainer(vocab_size=2000, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(some_texts, trainer)
    tokenizer.model.save(str(tmp_path))
    encoder = load_fast_tokenizer(tmp_path / "vocab.json")
    assert (encoder.kind, encoder.vocab_size) == ("byte_bpe", 2000)
    assert (encoder.cls_id, encoder.pad_id, encoder.sep_id) == (0, 1, 2)
    assert (encoder.unk_id, encoder.mask_id) == (3, 4)
    theirs = transformers.RobertaTokenizerFast.from_pretrained(tmp_path)
    texts = [text for text in some_texts + AWKWARD if "<mask>" not in text]
    encoded = theirs(texts, add_special_tokens=False)["input_ids"]
    assert not differing(encoder, texts, encoded)
    words = map(theirs.decode, words_of(encoder, TEXT))
    assert [word.strip() for word in words] == TEXT.split()


def test_a_vocabulary_from_elsewhere_without_a_mask_is_told_how_to_get_one(tmp_path):
    """A new vocabulary, which data preparation makes, would not go with the model."""
    vocab = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "a": 4}
    path = tmp_path / "vocab.json"
    path.write_text(json.dumps(vocab))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    with pytest.raises(VocabularyError, match="has no <mask>: if it is of a model from") as caught:
        byte_bpe.read(path)
    token, number = re.search('add "(.*)": (.*) at its end, if', str(caught.value)).groups()
    path.write_text(json.dumps(vocab | {token: int(number)}))
    assert byte_bpe.read(path)[0]["<mask>"] == 5


def test_a_space_before_a_text_is_in_no_range(vocabulary_of_kind):
    own = tokenization.load_tokenizer(vocabulary_of_kind["byte_bpe"], False)
    for text in (" patients", "  patients", "\n patients", "patients"):
        starts, ends = zip(*own.encode([text])[0].offsets, strict=True)
        covered = [text[start:end] for start, end in zip(starts, ends, strict=True)]
        assert not [part for part in covered if part != part.strip() and part.strip()], text
        assert "".join(covered).strip() == "patients"
