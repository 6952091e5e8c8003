"""Vocabularies of all kinds that lack special tokens, or are none."""

import pytest

from tfbio.text import sentencepiece_model, special_tokens
from tfbio.text.fast_tokenizer import load_fast_tokenizer


def test_special_tokens_of_the_other_kinds_are_asked_for(tmp_path):
    path = tmp_path / "vocab.json"
    path.write_text('{"a": 0}')
    with pytest.raises(
        special_tokens.VocabularyError, match="cannot be read.*merges.txt beside it"
    ):
        load_fast_tokenizer(path)
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    with pytest.raises(
        special_tokens.VocabularyError, match="has no <pad>, <unk>, <s>, </s>, <mask>"
    ):
        load_fast_tokenizer(path)
    for merges, message in (("x y\n", ""), ("\nx y\n", ": merge 1 is not two tokens")):
        (tmp_path / "merges.txt").write_text("#version: 0.2\n" + merges)
        with pytest.raises(special_tokens.VocabularyError, match=f"not byte-level BPE{message}"):
            load_fast_tokenizer(path)
    path = tmp_path / "a.model"
    with pytest.raises(special_tokens.VocabularyError, match="cannot be read"):
        load_fast_tokenizer(path)
    model = sentencepiece_model.ModelProto()
    model.pieces.add(piece="<unk>", type=sentencepiece_model.UNKNOWN)
    # For whose first part the library would take 4 GB.
    model.normalizer_spec.precompiled_charsmap = b"\xff\xff\xff\xff"
    for content in (b"no model", b"", model.SerializeToString()):
        path.write_bytes(content)
        with pytest.raises(special_tokens.VocabularyError, match="a.model is not a SentencePiece"):
            load_fast_tokenizer(path)
    with pytest.raises(
        special_tokens.VocabularyError, match="give WordPiece's vocab.txt, Sentence"
    ):
        load_fast_tokenizer(tmp_path / "vocab.bin")
