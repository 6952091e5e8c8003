"""The vocabulary of a folder."""

import pytest

from tfbio.text import special_tokens, vocabularies


def test_the_vocabulary_of_a_folder_is_found(pubmedbert_vocab, tmp_path):
    with pytest.raises(
        special_tokens.VocabularyError, match="has no vocab.txt, .* or tokenizer.json"
    ):
        vocabularies.find_vocabulary(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    found = vocabularies.find_vocabulary(tmp_path)
    assert vocabularies.vocabulary_files(found) == [tmp_path / "tokenizer.json"]
    (tmp_path / "vocab.json").write_text("{}")
    found = vocabularies.find_vocabulary(tmp_path)
    assert vocabularies.vocabulary_files(found) == [found, tmp_path / "merges.txt"]
    vocabularies.copy_vocabulary(pubmedbert_vocab, tmp_path)
    with pytest.raises(
        special_tokens.VocabularyError, match="has vocab.txt and vocab.json: remove"
    ):
        vocabularies.find_vocabulary(tmp_path)
