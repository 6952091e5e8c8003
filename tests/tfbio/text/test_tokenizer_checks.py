"""Tests that what `transformers` would do to text otherwise is refused."""

import json

import pytest

from tfbio.text import hugging_face_tokenizer, special_tokens
from tfbio.text.tokenizer_checks import TokenizerError

WORDS = [*special_tokens.SPECIAL_TOKENS, "a", "##a", "aspirin", "##irin", "[unused1]"]


@pytest.fixture
def saved(tmp_path):
    """Writes a tokenizer of `transformers`, as it saves it; returns the folder."""
    import transformers

    def save(vocab_txt=True, tokens=(), **settings):
        (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
        (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
        theirs = transformers.BertTokenizer.from_pretrained(tmp_path, **settings)
        theirs.add_tokens(list(tokens))
        theirs.save_pretrained(tmp_path)
        if not vocab_txt:
            (tmp_path / "vocab.txt").unlink()
        return tmp_path

    return save


@pytest.mark.parametrize("vocab_txt", [True, False])
def test_added_tokens_are_named(saved, vocab_txt):
    assert hugging_face_tokenizer.read_lower_case(saved(vocab_txt))
    with pytest.raises(TokenizerError, match=r"tokenizer.json adds .* \(@gene\$, e1\), which"):
        hugging_face_tokenizer.read_lower_case(saved(vocab_txt, ["@gene$", "e1", "[unused7]"]))


def test_added_tokens_of_an_older_version_are_named(saved):
    folder = saved()
    (folder / "tokenizer.json").unlink()
    (folder / "added_tokens.json").write_text(json.dumps({"@gene$": len(WORDS)}))
    with pytest.raises(TokenizerError, match=r"added_tokens.json adds"):
        hugging_face_tokenizer.read_lower_case(folder)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tokenize_chinese_chars": False}, "tokenize_chinese_chars is false"),
        ({"strip_accents": False}, "strip_accents is false"),
    ],
)
@pytest.mark.parametrize("in_config", [True, False])
def test_accents_and_chinese_characters_are_berts(saved, settings, words, in_config):
    folder = saved(**settings)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    for name in settings:
        assert name in config
        if not in_config:
            del config[name]
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(TokenizerError, match=words):
        hugging_face_tokenizer.read_lower_case(folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True}}, "add_prefix_space"),
        ({"normalizer": {"type": "Lowercase"}}, "tokenizer.json normalizes text by Lowercase"),
    ],
)
def test_byte_level_bpe_changes_no_text(vocabulary_of_kind, tmp_path, change, words):
    folder = tmp_path / "saved"
    hugging_face_tokenizer.write(folder, vocabulary_of_kind["byte_bpe"], False, 1, 77)
    assert hugging_face_tokenizer.read_lower_case(folder) is False
    (folder / "tokenizer_config.json").unlink()
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(TokenizerError, match=words):
        hugging_face_tokenizer.read_lower_case(folder)


def test_a_few_capitals_make_no_cased_vocabulary(tmp_path):
    """Counts them where no file says whether text is lower-cased, as beside old checkpoints."""
    words = [*special_tokens.SPECIAL_TOKENS, *(f"word{number}" for number in range(200))]
    for added, lower_case in ([], True), (["COVID"], True), (["The", "Of", "In"], False):
        (tmp_path / "vocab.txt").write_text("\n".join([*words, *added]) + "\n")
        assert hugging_face_tokenizer.read_lower_case(tmp_path) is lower_case
