"""Tokenizers that `transformers` loads and saves, against ours."""

import json
import math

import numpy as np
import pytest

from data_prep.sentences import vocabulary_training
from tfbio.text import (
    hugging_face_tokenizer,
    sentencepiece_model,
    special_tokens,
    tokenization,
    vocabularies,
)
from tfbio.text.fast_tokenizer import load_fast_tokenizer
from tfbio.text.hugging_face_tokenizer import TokenizerError

SPECIAL = "".join(f"{token}\n" for token in special_tokens.SPECIAL_TOKENS)


# --- Out -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "model_type", "expected"),
    [
        ("wordpiece", "bert", "BertTokenizer"),
        ("wordpiece", "electra", "BertTokenizer"),
        ("byte_bpe", "roberta", "RobertaTokenizer"),
        ("albert", "albert", "AlbertTokenizer"),
        # Our own models fold case themselves, and leave quotation marks as they are.
        ("unigram", "albert", "TokenizersBackend"),
        # None is as in a paper.
        ("bpe", "albert", "TokenizersBackend"),
        ("wordpiece", "roberta", "BertTokenizer"),
        ("wordpiece", "albert", "BertTokenizer"),
        ("byte_bpe", "bert", "RobertaTokenizer"),
        ("byte_bpe", "albert", "RobertaTokenizer"),
        ("albert", "electra", "AlbertTokenizer"),
        ("unigram", "roberta", "TokenizersBackend"),
    ],
)
def test_transformers_gives_our_ids(
    kind, model_type, expected, vocabulary_of_kind, sentences, tmp_path
):
    import transformers

    path, lower_case = vocabulary_of_kind[kind], kind != "byte_bpe"
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
    number_of_segments = 1 if model_type == "roberta" else 2
    hugging_face_tokenizer.write(tmp_path, path, lower_case, number_of_segments, 77)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert type(theirs).__name__ == expected and theirs.model_max_length == 77
    ours = tokenization.load_tokenizer(path, lower_case, (), number_of_segments)
    for role in ("pad", "unk", "cls", "sep", "mask"):
        assert getattr(theirs, f"{role}_token_id") == getattr(ours, f"{role}_id")
    assert len(sentences) == 1000
    ids = [encoding.ids for encoding in ours.encode(sentences)]
    for found, own in zip(theirs(sentences)["input_ids"], ids, strict=True):
        assert found == ours.join(own)[0].tolist()
    pairs = theirs(sentences[:-1], sentences[1:])
    names = ["input_ids", "token_type_ids", "attention_mask"]
    has_segments = kind != "byte_bpe" and model_type != "roberta"
    assert [*pairs] == (names if has_segments else names[::2])
    for number, (first, second) in enumerate(zip(ids, ids[1:], strict=False)):
        both, segments = ours.join(first, second)
        assert pairs["input_ids"][number] == both.tolist()
        assert segments.any() == has_segments, number
        if has_segments:
            assert pairs["token_type_ids"][number] == segments.tolist()
    # What <mask> stands for had a space before it.
    mask = theirs(f"the {theirs.mask_token} of", add_special_tokens=False)["input_ids"]
    assert mask == [*ours.encode(["the"])[0].ids, ours.mask_id, *ours.encode_words(["of"])[0]]
    # A round trip: what was written is read as it was.
    assert hugging_face_tokenizer.read_lower_case(tmp_path) == lower_case
    assert vocabularies.sha256_of(vocabularies.find_vocabulary(tmp_path)) == (
        vocabularies.sha256_of(path)
    )


def test_a_sentencepiece_model_with_capital_letters_is_written_as_cased(sentences, tmp_path):
    """Also where the run's settings lower-case text, which they cannot for such a model."""
    path, folder = tmp_path / "vocab.model", tmp_path / "model"
    trained = vocabulary_training.train_sentencepiece(sentences, "unigram", 1500, lower_case=False)
    path.write_bytes(trained[0])
    hugging_face_tokenizer.write(folder, path, True, 2, 77)
    assert not hugging_face_tokenizer.read_lower_case(folder)
    ids = tokenization.load_tokenizer(path, True).encode(["DNA dna"])[0].ids
    assert ids == tokenization.load_tokenizer(path, False).encode(["DNA dna"])[0].ids
    # Its text would stay as it is, whatever the settings of a fine-tuned model say.
    settings = folder / "tokenizer_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"do_lower_case": True}))
    (folder / "config.json").write_text('{"architectures": ["AlbertForTokenClassification"]}')
    with pytest.raises(TokenizerError, match="do_lower_case is true, but .* set it to false"):
        hugging_face_tokenizer.read_lower_case(folder)


# --- In ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["wordpiece", "byte_bpe", "albert"])
def test_what_transformers_saves_is_a_vocabulary(
    kind, vocabulary_of_kind, sentences, tmp_path, sentencepiece_for_transformers
):
    import transformers

    path, folder, run = vocabulary_of_kind[kind], tmp_path / "theirs", tmp_path / "run"
    name, tokenizer = {
        "wordpiece": ("vocab.txt", transformers.BertTokenizer),
        "byte_bpe": ("vocab.json", transformers.RobertaTokenizer),
        "albert": ("spiece.model", transformers.AlbertTokenizer),
    }[kind]
    for place in (folder, run):
        place.mkdir()
    for file in vocabularies.vocabulary_files(path):
        (folder / (name if file == path else file.name)).write_bytes(file.read_bytes())
    theirs = tokenizer.from_pretrained(folder)
    saved = tmp_path / "saved"
    theirs.save_pretrained(saved)
    for file in (name, "merges.txt"):
        (saved / file).unlink(missing_ok=True)
    found = vocabularies.find_vocabulary(saved)
    assert found.name == "tokenizer.json"
    copied = vocabularies.copy_vocabulary(found, run)
    assert copied.name == f"vocab{path.suffix}"
    assert vocabularies.sha256_of(found) == vocabularies.sha256_of(copied)
    if kind == "wordpiece":
        assert copied.read_bytes() == path.read_bytes()
    elif kind == "byte_bpe":
        assert json.loads(copied.read_bytes()) == json.loads(path.read_bytes())
        assert (run / "merges.txt").read_bytes() == path.with_name("merges.txt").read_bytes()
    else:
        read = sentencepiece_model.ModelProto.FromString
        before, after = read(path.read_bytes()), read(copied.read_bytes())
        for one, other in zip(after.pieces, before.pieces, strict=True):
            assert (one.piece, one.score, one.type) == (other.piece, other.score, other.type)
        charsmap = before.normalizer_spec.precompiled_charsmap
        assert after.normalizer_spec.precompiled_charsmap == charsmap
    lower_case = hugging_face_tokenizer.read_lower_case(saved)
    assert lower_case == (kind != "byte_bpe")
    expected = theirs(sentences, add_special_tokens=False)["input_ids"]
    for load in (found, copied):
        ids, offsets = load_fast_tokenizer(load, lower_case)(sentences)
        parts = np.split(ids, offsets[1:-1])
        # Two ways to cut a word can be equally likely to the last bit.
        differ = sum(x.tolist() != y for x, y in zip(parts, expected, strict=True))
        assert differ <= (2 if kind == "albert" else 0)
        encoded = tokenization.load_tokenizer(load, lower_case).encode(sentences)
        assert [encoding.ids for encoding in encoded] == expected


def write_vocabulary(folder, *tokens, **settings):
    content = SPECIAL + "".join(f"{token}\n" for token in tokens)
    (folder / "vocab.txt").write_text(content, encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def test_whether_text_is_lower_cased(tmp_path):
    write_vocabulary(tmp_path, "the", "##s")
    assert hugging_face_tokenizer.read_lower_case(tmp_path) is True
    write_vocabulary(tmp_path, "the", "The")
    assert hugging_face_tokenizer.read_lower_case(tmp_path) is False
    write_vocabulary(tmp_path, "the", do_lower_case=True, strip_accents=None)
    assert hugging_face_tokenizer.read_lower_case(tmp_path) is True
    # Of one that says nothing in its settings, tokenizer.json may.
    words = ["the", "The", *map(str, range(200))]
    write_vocabulary(tmp_path, *words, tokenizer_class="BertTokenizer")
    normalizer = {"type": "BertNormalizer", "lowercase": True}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"normalizer": normalizer}))
    assert hugging_face_tokenizer.read_lower_case(tmp_path) is True


@pytest.mark.parametrize(
    ("tokens", "settings", "words"),
    [
        (
            ["the", "The"],
            {"do_lower_case": True},
            r"is true, but 1 of 3 .* set it to false in .*, as the encoder was pretrained with",
        ),
        (
            ["the"],
            {"do_lower_case": False},
            r"is false, but no token in .*vocab\.txt has a capital",
        ),
        (["the"], {"do_lower_case": True, "strip_accents": False}, "strip_accents is false"),
    ],
)
def test_settings_that_contradict_the_vocabulary_are_refused(tokens, settings, words, tmp_path):
    write_vocabulary(tmp_path, *tokens, **settings)
    with pytest.raises(TokenizerError, match=words):
        hugging_face_tokenizer.read_lower_case(tmp_path)


@pytest.mark.parametrize("head", ["TokenClassification", "SequenceClassification"])
def test_a_fine_tuned_model_reads_text_as_it_learnt(head, tmp_path, capsys):
    """Clinical BERTs learnt on lower-cased text with BERT's cased vocabulary, and say so."""
    write_vocabulary(tmp_path, "the", "The", do_lower_case=True)
    (tmp_path / "config.json").write_text(json.dumps({"architectures": [f"BertFor{head}"]}))
    for _ in range(2):
        assert hugging_face_tokenizer.read_lower_case(tmp_path) is True
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "do_lower_case is true in" in said
    assert "so text is lower-cased: 1 of 3 tokens" in said
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["BertForMaskedLM"]}))
    with pytest.raises(TokenizerError, match="set it to false in"):
        hugging_face_tokenizer.read_lower_case(tmp_path)


@pytest.mark.parametrize("settings", [b"\xff", b"[" * 100_000, b"[1]", b"{", b""])
def test_settings_that_are_no_json_object_are_refused(settings, tmp_path):
    write_vocabulary(tmp_path, "the")
    (tmp_path / "tokenizer_config.json").write_bytes(settings)
    with pytest.raises(TokenizerError, match=r"tokenizer_config\.json is no JSON object"):
        hugging_face_tokenizer.read_lower_case(tmp_path)


@pytest.mark.parametrize("value", ["NaN", "1", '"true"', "[]"])
def test_do_lower_case_is_true_or_false(value, tmp_path):
    write_vocabulary(tmp_path, "the")
    (tmp_path / "tokenizer_config.json").write_text(f'{{"do_lower_case": {value}}}')
    with pytest.raises(TokenizerError, match="it must be true or false"):
        hugging_face_tokenizer.read_lower_case(tmp_path)


@pytest.mark.parametrize("name", ["vocab.txt", "spiece.model"])
def test_a_vocabulary_that_is_none_is_named(name, tmp_path):
    (tmp_path / name).write_bytes(b"\xff\xfe")
    with pytest.raises(TokenizerError, match=f"{name} is no vocabulary"):
        hugging_face_tokenizer.read_lower_case(tmp_path)


def test_a_folder_without_a_vocabulary_is_named(tmp_path):
    with pytest.raises(TokenizerError, match=r"has no vocab\.txt, .* Save the tokenizer"):
        hugging_face_tokenizer.read_lower_case(tmp_path)


def test_a_tagger_s_words_have_a_space_before_them(vocabulary_of_kind, sentences, tmp_path):
    """Of byte-level BPE; and as texts they are refused, for the first one has none here."""
    import transformers

    path = vocabulary_of_kind["byte_bpe"]
    settings = {"model_type": "roberta", "architectures": ["RobertaForTokenClassification"]}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    hugging_face_tokenizer.write(tmp_path, path, False, 1, 77, of_words=True)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ours = tokenization.load_tokenizer(path, False, (), 1)
    for words in (sentence.split(" ") for sentence in sentences[:100]):
        ids = [number for word in ours.encode_words(words) for number in word]
        found = theirs(words, is_split_into_words=True, add_special_tokens=False)["input_ids"]
        assert found == ids
    assert not hugging_face_tokenizer.read_lower_case(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "roberta"}))
    with pytest.raises(TokenizerError, match="add_prefix_space is true"):
        hugging_face_tokenizer.read_lower_case(tmp_path)


def test_the_longest_text_is_what_the_tokenizer_says(tmp_path):
    assert hugging_face_tokenizer.read_max_length(tmp_path) == math.inf
    for said, expected in ((20, 20), (int(1e30), 1e30), (None, math.inf), ("512", math.inf)):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": said}))
        assert hugging_face_tokenizer.read_max_length(tmp_path) == expected
