"""Vocabulary files, and the tokenizer of fine-tuning with its offsets."""

import pytest

from tests.tfbio.text.conftest import differing, tokenizer_of
from tfbio.text import sentencepiece_model, tokenization, vocabularies
from tfbio.text.fast_tokenizer import load_fast_tokenizer

SPECIAL = "".join(f"{token}\n" for token in vocabularies.SPECIAL_TOKENS)


def test_lines_are_ids(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text(SPECIAL + "a\n##\u2028\n##\x85\n", encoding="utf-8")
    vocab = tokenization.read_vocab(path)
    assert vocab["[PAD]"] == 0 and vocab["a"] == 5
    assert vocab["##\u2028"] == 6 and vocab["##\x85"] == 7 and len(vocab) == 8


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (SPECIAL.replace("[MASK]\n", ""), r"vocab.txt has no \[MASK\]: .*data_prep.vocabulary"),
        ("", r"has no \[PAD\], \[UNK\], \[CLS\], \[SEP\], \[MASK\]"),
        (SPECIAL + "a\nb\na\n", "has 'a' twice, on lines 6 and 8"),
        (b"\xff\xfe\x00", "not text in UTF-8"),
    ],
)
def test_bad_vocabularies_are_named(tmp_path, content, expected):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(vocabularies.VocabularyError, match=expected):
        tokenization.read_vocab(path)


def test_a_missing_vocabulary_is_named(tmp_path):
    for path in (tmp_path / "gone.txt", tmp_path):
        with pytest.raises(vocabularies.VocabularyError, match="cannot be read.*vocab.txt"):
            tokenization.read_vocab(path)


def test_special_tokens_of_the_other_kinds_are_asked_for(tmp_path):
    path = tmp_path / "vocab.json"
    path.write_text('{"a": 0}')
    with pytest.raises(vocabularies.VocabularyError, match="cannot be read.*merges.txt beside it"):
        load_fast_tokenizer(path)
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    with pytest.raises(
        vocabularies.VocabularyError, match="has no <pad>, <unk>, <s>, </s>, <mask>"
    ):
        load_fast_tokenizer(path)
    for merges, message in (("x y\n", ""), ("\nx y\n", ": merge 1 is not two tokens")):
        (tmp_path / "merges.txt").write_text("#version: 0.2\n" + merges)
        with pytest.raises(vocabularies.VocabularyError, match=f"not byte-level BPE{message}"):
            load_fast_tokenizer(path)
    path = tmp_path / "a.model"
    with pytest.raises(vocabularies.VocabularyError, match="cannot be read"):
        load_fast_tokenizer(path)
    model = sentencepiece_model.ModelProto()
    model.pieces.add(piece="<unk>", type=sentencepiece_model.UNKNOWN)
    # For whose first part the library would take 4 GB.
    model.normalizer_spec.precompiled_charsmap = b"\xff\xff\xff\xff"
    for content in (b"no model", b"", model.SerializeToString()):
        path.write_bytes(content)
        with pytest.raises(vocabularies.VocabularyError, match="a.model is not a SentencePiece"):
            load_fast_tokenizer(path)
    with pytest.raises(vocabularies.VocabularyError, match="give WordPiece's vocab.txt, Sentence"):
        load_fast_tokenizer(tmp_path / "vocab.bin")


KINDS = ["wordpiece", "byte_bpe", "unigram", "bpe", "albert"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_tokenizer_gives_the_encoder_s_ids(kind, vocabulary_of_kind, sentences):
    """Of SentencePiece's kinds the encoder is the library itself."""
    import sentencepiece

    path = vocabulary_of_kind[kind]
    encoder = load_fast_tokenizer(path, kind != "byte_bpe")
    tokenizer = tokenizer_of(vocabulary_of_kind, kind)
    names = ("kind", "vocab_size", "pad_id", "unk_id", "cls_id", "sep_id", "mask_id")
    for name in names:
        assert getattr(tokenizer, name) == getattr(encoder, name)
    assert tokenizer.rows == tokenizer.vocab_size
    texts = [*sentences, "", " ", "  two  spaces ", "[MASK] [SEP][PAD] <s> </s> <mask> <pad>"]
    encoded = tokenizer.encode(texts)
    differs = differing(encoder, texts, (encoding.ids for encoding in encoded))
    # Two ways to cut a word can be equally likely, but for the last bit of the sum.
    assert len(differs) <= (2 if encoder.kind == "unigram" else 0), differs
    for text in differs:
        score = sentencepiece.SentencePieceProcessor(model_file=str(path)).get_score
        ours, theirs = tokenizer.encode([text])[0].ids, encoder([text])[0].tolist()
        assert sum(map(score, ours)) == pytest.approx(sum(map(score, theirs)), abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_have_the_characters_of_the_text(kind, vocabulary_of_kind, sentences):
    tokenizer = tokenizer_of(vocabulary_of_kind, kind)
    marks = {"wordpiece": "##", "byte_bpe": vocabularies.BYTE_BPE_SPACE}
    mark = marks.get(kind, vocabularies.SENTENCEPIECE_SPACE)
    texts = [text for text in sentences if text.isascii() and "''" not in text]
    assert len(texts) > 900
    for text, encoding in zip(texts, tokenizer.encode(texts), strict=True):
        for token, number, (start, end) in zip(
            encoding.tokens, encoding.ids, encoding.offsets, strict=True
        ):
            own, found = token.removeprefix(mark), text[start:end]
            found = found if kind == "byte_bpe" else found.lower()
            # The space before a word that the vocabulary lacks is a token; it has no characters, or
            # as `tokenizers` has it the first of the word's.
            assert found == own or number == tokenizer.unk_id or not own, (text, token)
        seen = {place for start, end in encoding.offsets for place in range(start, end)}
        assert seen == {place for place, char in enumerate(text) if not char.isspace()}


def test_offsets_are_of_the_characters_before_they_were_changed(vocabulary_of_kind):
    text = "Sjo\u0308gren  (\ufb01ne) \u03b2-Caf\u00e9"
    for kind in KINDS:
        encoding = tokenizer_of(vocabulary_of_kind, kind).encode([text])[0]
        starts, ends = map(list, zip(*encoding.offsets, strict=True))
        assert starts == sorted(starts) and starts[0] == 0 and ends[-1] == len(text), kind
        for word in text.split():
            first = text.index(word)
            assert first in starts and first + len(word) in ends, (kind, word)


@pytest.mark.parametrize("kind", ["wordpiece", "byte_bpe", "albert"])
def test_words_are_those_of_transformers(
    kind, vocabulary_of_kind, sentences, tmp_path, sentencepiece_for_transformers
):
    """With `is_split_into_words`, and `add_prefix_space` where there is such a thing."""
    import transformers

    path = vocabulary_of_kind[kind]
    if kind == "wordpiece":
        theirs = transformers.BertTokenizer(str(path))
    elif kind == "byte_bpe":
        theirs = transformers.RobertaTokenizer.from_pretrained(path.parent, add_prefix_space=True)
    else:
        (tmp_path / "spiece.model").write_bytes(path.read_bytes())
        theirs = transformers.AlbertTokenizer.from_pretrained(tmp_path)
    words = [text.split() for text in sentences]
    encoded = theirs(words, is_split_into_words=True, add_special_tokens=False)["input_ids"]
    tokenizer = tokenizer_of(vocabulary_of_kind, kind)
    for own, expected in zip(words, encoded, strict=True):
        assert sum(tokenizer.encode_words(own), []) == expected
    # A word of a character that is dropped is one; byte-level BPE drops none.
    (ids,) = tokenizer.encode_words(["\u200b"])
    assert (ids == [tokenizer.unk_id]) == (kind != "byte_bpe") and ids


@pytest.mark.parametrize("kind", KINDS)
def test_new_tokens_are_tokens(kind, vocabulary_of_kind):
    markers = ("[S1]", "[E1]", "[S2]", "[E2]")
    tokenizer = tokenizer_of(vocabulary_of_kind, kind, *markers)
    size = tokenizer.vocab_size
    assert tokenizer.rows == size + 4
    text = "Both [S1] aspirin [E1] and [S2] COX-1 [E2] inhibit"
    (encoding,) = tokenizer.encode([text])
    for number, marker in enumerate(markers, size):
        place = encoding.ids.index(number)
        start = text.index(marker)
        assert encoding.offsets[place] == (start, start + 4)
    # The others are as they would be without them.
    (without,) = tokenizer_of(vocabulary_of_kind, kind).encode(["Both aspirin and COX-1 inhibit"])
    assert [number for number in encoding.ids if number < size] == without.ids
