"""SentencePiece models: lower case, and those that are refused."""

import io
from pathlib import Path

import numpy as np
import pytest

from tests.tfbio.text.conftest import differing, tokenizer_of
from tfbio.text import sentencepiece_model, special_tokens, tokenization
from tfbio.text.fast_tokenizer import load_fast_tokenizer


def test_albert_s_text_is_lower_cased_first(
    vocabulary_of_kind, sentences, tmp_path, sentencepiece_for_transformers
):
    """As by `AlbertTokenizer`, in pretraining and in fine-tuning; and never where it is not due."""
    import transformers

    path = vocabulary_of_kind["albert"]
    (tmp_path / "spiece.model").write_bytes(path.read_bytes())
    theirs = transformers.AlbertTokenizer.from_pretrained(tmp_path)
    texts = [*sentences, "Sj\u00f6gren's ``naive'' \u00c9tude", "\u0130stanbul CAF\u00c9"]
    expected = theirs(texts, add_special_tokens=False)["input_ids"]
    assert [e.ids for e in tokenizer_of(vocabulary_of_kind, "albert").encode(texts)] == expected
    assert len(differing(load_fast_tokenizer(path, True), texts, expected)) <= 2
    # Not where it is not asked for, nor with a model that folds case itself: accents stay.
    for kind, lower_case in (("albert", False), ("unigram", True)):
        encoder = load_fast_tokenizer(vocabulary_of_kind[kind], lower_case)
        tokenizer = tokenization.load_tokenizer(vocabulary_of_kind[kind], lower_case)
        texts = ["caf\u00e9", "cafe", "DNA", "dna"]
        parts = np.split(encoder(texts)[0], encoder(texts)[1][1:-1])
        for ids in ([x.tolist() for x in parts], [e.ids for e in tokenizer.encode(texts)]):
            assert ids[0] != ids[1], kind
            assert (ids[2] == ids[3]) == (kind == "unigram")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"byte_fallback": True}, "has pieces for bytes"),
        ({"add_dummy_prefix": False}, "has no space before a text"),
        ({"remove_extra_whitespaces": False}, "keeps all spaces"),
        ({"model_type": "char"}, "is neither a unigram nor a BPE model"),
        ({"treat_whitespace_as_suffix": True}, "writes the space after a word"),
        ({"split_by_whitespace": False}, "has pieces that go over spaces"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_other_sentencepiece_models_are_refused(sentences, tmp_path, settings, words):
    import sentencepiece

    model = io.BytesIO()
    options = {"vocab_size": 600, "hard_vocab_limit": False, "minloglevel": 2, **settings}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences[:200]),
        model_writer=model,
        control_symbols=["[CLS]", "[SEP]", "[MASK]", "<pad>"],
        **options,
    )
    path = tmp_path / "a.model"
    path.write_bytes(model.getvalue())
    with pytest.raises(special_tokens.VocabularyError, match=f"a.model {words}, which cannot"):
        tokenization.load_tokenizer(path)


def test_a_model_has_each_piece_once_and_one_for_what_is_unknown(vocabulary_of_kind):
    serialized = Path(vocabulary_of_kind["unigram"]).read_bytes()
    twice, without = (sentencepiece_model.ModelProto.FromString(serialized) for _ in range(2))
    twice.pieces[20].piece = twice.pieces[21].piece
    without.trainer_spec.unk_id = -1
    for model, words in ((twice, "has a piece twice"), (without, "has no piece for what is unkno")):
        with pytest.raises(ValueError, match=words):
            sentencepiece_model.tokenizer(model, True)


def test_pieces_that_a_user_defined_win_over_others(sentences):
    import sentencepiece

    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences[:200]),
        model_writer=written,
        vocab_size=600,
        hard_vocab_limit=False,
        minloglevel=2,
        user_defined_symbols=["@GENE$", "tion"],
    )
    theirs = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    model = sentencepiece_model.ModelProto.FromString(written.getvalue())
    ours = sentencepiece_model.tokenizer(model, False)
    texts = [f"{text} x@GENE$y @GENE$ mutation" for text in sentences[:100]]
    defined = {theirs.piece_to_id("@GENE$"), theirs.piece_to_id("tion")}
    for text in texts:
        expected = theirs.encode(text)
        assert defined <= set(expected) and ours.encode(text).ids == expected


def test_a_normalizer_is_read_whole_or_refused(vocabulary_of_kind):
    # Damaged here, the library builds it, and panics at a character that leads to the damage.
    from tokenizers import normalizers

    read = sentencepiece_model.ModelProto.FromString
    model = read(Path(vocabulary_of_kind["unigram"]).read_bytes())
    spec, draw = model.normalizer_spec, np.random.default_rng(0)
    charsmap = spec.precompiled_charsmap
    assert sentencepiece_model.folds_case(model)
    texts = [chr(code) for code in range(0x20, 0x3400)]
    panics = 0
    for place in draw.integers(4, len(charsmap), 60):
        damaged = bytearray(charsmap)
        damaged[place] ^= draw.integers(1, 256)
        spec.precompiled_charsmap = bytes(damaged)
        try:
            sentencepiece_model.folds_case(model)
            refused = False
        except ValueError:
            refused = True
        try:
            own = normalizers.Precompiled(spec.precompiled_charsmap)
            for text in texts:
                own.normalize_str(text)
        except BaseException as error:  # a panic of a library in Rust is no Exception
            assert refused, error
            panics += 1
    assert panics


def test_decomposed_capitals_keep_their_accents(vocabulary_of_kind):
    """As SentencePiece's own normalizer has it, and the fast tokenizer."""
    path = vocabulary_of_kind["unigram"]
    fast, own = load_fast_tokenizer(path), tokenization.load_tokenizer(path, True)
    for text in ("O\u0308hman", "o\u0308hman", "\u00d6hman", "E\u0301lise"):
        assert own.encode([text])[0].ids == fast([text.encode()])[0].tolist(), ascii(text)
