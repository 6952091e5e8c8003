"""Tests that what `transformers` would do to text otherwise is refused."""

import json

import pytest

from data_prep.sentences import vocabulary_training
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


@pytest.mark.parametrize(
    ("name", "added"),
    [
        ("added_tokens.json", {"@gene$": len(WORDS)}),
        ("tokenizer_config.json", {"added_tokens_decoder": {len(WORDS): {"content": "@gene$"}}}),
    ],
)
def test_added_tokens_of_an_older_version_are_named(name, added, saved):
    folder = saved()
    (folder / "tokenizer.json").unlink()
    (folder / name).write_text(json.dumps(added))
    with pytest.raises(TokenizerError, match=rf"{name} adds tokens .* \(@gene\$\), which"):
        hugging_face_tokenizer.read_lower_case(folder)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tokenize_chinese_chars": False}, "tokenize_chinese_chars is false"),
        ({"strip_accents": False}, "strip_accents is false"),
    ],
)
def test_accents_and_chinese_characters_are_berts(saved, settings, words):
    with pytest.raises(TokenizerError, match=words):
        hugging_face_tokenizer.read_lower_case(saved(**settings))


@pytest.mark.parametrize("name", ["BertJapaneseTokenizer", "PreTrainedTokenizerFast"])
def test_a_class_with_unknown_rules_is_named(name, saved):
    """Without the file that tells its rules: text would become [UNK] without a word."""
    folder = saved()
    (folder / "tokenizer.json").unlink()
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({"tokenizer_class": name}))
    with pytest.raises(
        TokenizerError, match=f"has a {name[:19]}.* and no tokenizer.json, so its rules"
    ):
        hugging_face_tokenizer.read_lower_case(folder)


@pytest.mark.parametrize("name", ["", "BertTokenizerFast", "DistilBertTokenizer"])
def test_a_class_with_bert_s_rules_needs_no_tokenizer_json(name, saved):
    folder = saved()
    (folder / "tokenizer.json").unlink()
    (folder / "config.json").unlink()
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name}))
    assert hugging_face_tokenizer.read_lower_case(folder)


def part(part_type, **settings):
    """A part of a `tokenizer.json`."""
    return {"type": part_type, **settings}


BERTS = part(
    "BertNormalizer",
    clean_text=True,
    handle_chinese_chars=True,
    strip_accents=None,
    lowercase=True,
)
NO_CHINESE = BERTS | {"handle_chinese_chars": False}
WORDS_AND_DIGITS = [part("BertPreTokenizer"), part("Digits", individual_digits=True)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"pre_tokenizer": part("Whitespace")}, r"'\(IL-2\)"),
        ({"pre_tokenizer": part("Sequence", pretokenizers=WORDS_AND_DIGITS)}, "'p', '5', '3'"),
        (
            {"normalizer": part("Sequence", normalizers=[part("NFC"), part("Lowercase")])},
            r"caf\\xe9",
        ),
        ({"normalizer": part("Sequence", normalizers=[NO_CHINESE])}, r"drug\\u4e2d"),
        ({"normalizer": BERTS | {"strip_accents": False}}, r"caf\\xe9"),
        ({"normalizer": BERTS | {"clean_text": False}}, r"\\x00"),
    ],
)
def test_a_tokenizer_json_with_other_ids_is_refused(change, words, tmp_path):
    """If `transformers` takes it as it is, and not if it makes BERT's tokenizer of it."""
    import transformers

    text = "(il-2), 10mg caf\u00e9 drug\u4e2da a\u0000b"
    tokens = [*WORDS, *"(),-0123456789", *(f"##{digit}" for digit in "0123456789")]
    tokens += ["il", "mg", "##mg", "caf", "cafe", "##e", "##\u00e9", "drug", "##b"]
    vocab = {token: number for number, token in enumerate([*tokens, "b", "\u4e2d"])}
    content = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": BERTS,
        "pre_tokenizer": part("BertPreTokenizer"),
        "model": part(
            "WordPiece",
            vocab=vocab,
            unk_token="[UNK]",
            continuing_subword_prefix="##",
            max_input_chars_per_word=100,
        ),
    }
    names = dict(zip(("pad", "unk", "cls", "sep", "mask"), WORDS, strict=False))
    settings = {f"{role}_token": token for role, token in names.items()}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))

    def write(changed, class_name):
        (tmp_path / "tokenizer.json").write_text(json.dumps(content | changed))
        (tmp_path / "tokenizer_config.json").write_text(
            json.dumps(settings | {"tokenizer_class": class_name})
        )

    def ids(tokenizer):
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    write({}, "PreTrainedTokenizerFast")
    assert hugging_face_tokenizer.read_lower_case(tmp_path)
    as_bert = ids(transformers.AutoTokenizer.from_pretrained(tmp_path))
    for class_name in ("BertTokenizer", "ElectraTokenizerFast"):
        write(change, class_name)
        assert hugging_face_tokenizer.read_lower_case(tmp_path)
        assert ids(transformers.AutoTokenizer.from_pretrained(tmp_path)) == as_bert
    write(change, "PreTrainedTokenizerFast")
    assert ids(transformers.AutoTokenizer.from_pretrained(tmp_path)) != as_bert
    with pytest.raises(TokenizerError, match=rf"tokenizer.json makes .*{words}.*, and tfbio"):
        hugging_face_tokenizer.read_lower_case(tmp_path)


def test_a_vocabulary_in_another_order_than_tokenizer_json_s_is_refused(saved):
    """The words of a text are the same, and their ids are not."""
    folder = saved()
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tokenizer_class": "Own"}))
    assert hugging_face_tokenizer.read_lower_case(folder)
    (folder / "vocab.txt").write_text("\n".join([*WORDS[:5], *reversed(WORDS[5:])]) + "\n")
    with pytest.raises(TokenizerError, match=r"tokenizer.json makes .*'a'.*, and tfbio"):
        hugging_face_tokenizer.read_lower_case(folder)


def test_a_tokenizer_json_that_is_none_is_refused(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    (tmp_path / "tokenizer.json").write_text('{"normalizer": {"type": "Folds"}}')
    with pytest.raises(TokenizerError, match=r"tokenizer.json is no tokenizer \("):
        hugging_face_tokenizer.read_lower_case(tmp_path)


DIGITS = [
    part("Digits", individual_digits=True),
    part("ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True),
]
SPACES = [
    part("Split", pattern={"String": " "}, behavior="MergedWithNext", invert=False),
    part("ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=False),
]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"pre_tokenizer": part("ByteLevel", add_prefix_space=True, trim_offsets=True)},
            r"makes .* and tfbio",
        ),
        ({"pre_tokenizer": part("Sequence", pretokenizers=DIGITS)}, r"makes .* and tfbio"),
        ({"pre_tokenizer": part("Sequence", pretokenizers=SPACES)}, r"makes .* and tfbio"),
        ({"normalizer": {"type": "Lowercase"}}, "tokenizer.json normalizes text by Lowercase"),
    ],
)
@pytest.mark.parametrize("class_name", [None, "PreTrainedTokenizerFast"])
def test_byte_level_bpe_changes_no_text(vocabulary_of_kind, tmp_path, class_name, change, words):
    folder = tmp_path / "saved"
    hugging_face_tokenizer.write(folder, vocabulary_of_kind["byte_bpe"], False, 1, 77)
    assert hugging_face_tokenizer.read_lower_case(folder) is False
    settings = {"tokenizer_class": class_name}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(TokenizerError, match=words):
        hugging_face_tokenizer.read_lower_case(folder)


@pytest.mark.parametrize("keep_accents", [True, False])
def test_albert_s_rules_are_for_text_in_lower_case(
    sentences, tmp_path, keep_accents, sentencepiece_for_transformers
):
    """ALBERT's class has them for any text, and so has the `tokenizer.json` that it writes."""
    import transformers

    trained = vocabulary_training.train_sentencepiece(sentences, "unigram", 1500, lower_case=False)
    (tmp_path / "spiece.model").write_bytes(trained[0])
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "albert"}))
    settings = {"do_lower_case": False, "keep_accents": keep_accents}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(TokenizerError, match="AlbertTokenizer, which changes quotation marks"):
        hugging_face_tokenizer.read_lower_case(tmp_path)
    theirs = transformers.AlbertTokenizer.from_pretrained(tmp_path, **settings)
    theirs.save_pretrained(tmp_path)
    (tmp_path / "spiece.model").unlink()
    with pytest.raises(TokenizerError, match="AlbertTokenizer, which changes quotation marks"):
        hugging_face_tokenizer.read_lower_case(tmp_path)
    settings |= {"tokenizer_class": "PreTrainedTokenizerFast"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(TokenizerError, match=r"tokenizer.json makes .*, and tfbio"):
        hugging_face_tokenizer.read_lower_case(tmp_path)


def test_albert_s_text_in_lower_case_keeps_no_accents(vocabulary_of_kind, tmp_path):
    (tmp_path / "spiece.model").write_bytes(vocabulary_of_kind["albert"].read_bytes())
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "albert"}))
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({"do_lower_case": True, "keep_accents": False}))
    assert hugging_face_tokenizer.read_lower_case(tmp_path) is True
    path.write_text(json.dumps({"do_lower_case": True, "keep_accents": True}))
    with pytest.raises(TokenizerError, match="tokenizer_config.json has keep_accents = true: text"):
        hugging_face_tokenizer.read_lower_case(tmp_path)


def test_a_few_capitals_make_no_cased_vocabulary(tmp_path):
    """Counts them where no file says whether text is lower-cased, as beside old checkpoints."""
    words = [*special_tokens.SPECIAL_TOKENS, *(f"word{number}" for number in range(200))]
    for added, lower_case in ([], True), (["COVID"], True), (["The", "Of", "In"], False):
        (tmp_path / "vocab.txt").write_text("\n".join([*words, *added]) + "\n")
        assert hugging_face_tokenizer.read_lower_case(tmp_path) is lower_case
