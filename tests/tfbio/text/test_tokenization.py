"""The tokenizer of fine-tuning with its offsets."""

import pytest

from tests.tfbio.text.conftest import differing, tokenizer_of
from tfbio.text import special_tokens, vocabularies
from tfbio.text.fast_tokenizer import load_fast_tokenizer

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
        assert sum(map(score, ours)) == pytest.approx(sum(map(score, theirs)), abs=1e-4), text


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_have_the_characters_of_the_text(kind, vocabulary_of_kind, sentences):
    tokenizer = tokenizer_of(vocabulary_of_kind, kind)
    marks = {"wordpiece": "##", "byte_bpe": special_tokens.BYTE_BPE_SPACE}
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
        assert encoding.offsets[place] == (start, start + 4), number
    # The others are as they would be without them.
    (without,) = tokenizer_of(vocabulary_of_kind, kind).encode(["Both aspirin and COX-1 inhibit"])
    assert [number for number in encoding.ids if number < size] == without.ids
