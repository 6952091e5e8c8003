import io
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from tests import reference
from tfbio.text import sentencepiece_model, tokenization, vocabularies, word_table
from tfbio.text.fast_tokenizer import load_fast_tokenizer

ROOT = Path(__file__).resolve().parents[3]
SPECIAL = "".join(f"{token}\n" for token in vocabularies.SPECIAL_TOKENS)


@pytest.fixture(scope="session")
def pubmedbert_vocab():
    """The vocabulary of PubMedBERT."""
    return reference.PUBMEDBERT


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


def texts_of(articles):
    """Titles and parts of abstracts of so many real articles of each shipped file; None: all."""
    from itertools import islice

    from data_prep.readers import input_files, pubmed

    found = []
    for path in input_files.shipped_files(".xml.gz"):
        for citation in islice(pubmed.read_citations(path), articles):
            found += [citation.title, *(text for *_, text in citation.sections)]
    return found


@pytest.fixture(scope="session")
def some_texts():
    return texts_of(400)


@pytest.fixture(scope="session")
def all_texts():
    return texts_of(None)


# What no tokenizer may stumble over, beside the real texts.
MARKS = "-\u0301a \u0301b c\u0301\u0327d e\u0327\u0301f (\u0338)=\u0338"
LONG = "A" * 100 + " " + "b" * 101 + " " + "\u00e9" * 101
PRIVATE = "\x00nul \ufffd replaced \ue000private"
AWKWARD = [
    "",
    " ",
    "  two  spaces ",
    "tab\tand\nlines\r\n",
    "a\x1cb\x1fc\x85d\x0be\x0cf",  # whitespace to Python; BERT removes it, and joins
    "a\u00a0b\u2009c\u2028d\u3000e\u200bf\ufeffg\u00adh",
    MARKS,
    "\u212b \u2260 \ufb01n \u0130stanbul stra\u00dfe \u00b5g/ml \u03a3\u03c3",
    "IL-2R\u03b1\u2013CD25+ (p<0.05), 5''-OH; \u201cquoted\u201d",
    "\u4e2d\u6587 and\u6587text \uac00\ub098 \U0001d6fd \U0001f600",
    "[MASK] [SEP][PAD] [CLS]x [UNK] <s> </s> <mask> <pad> <unk>",
    LONG,
    PRIVATE,
]


def differing(encoder, texts, others):
    """The texts whose ids are not those that another tokenizer gave."""
    ids, offsets = encoder(texts)
    assert ids.dtype == np.int32 and offsets.dtype == np.int64 and len(offsets) == len(texts) + 1
    assert offsets[-1] == len(ids)
    parts = np.split(ids, offsets[1:-1])
    return [
        text
        for text, part, other in zip(texts, parts, others, strict=True)
        if part.tolist() != list(other)
    ]


def by_hugging_face(path, lower_case, texts):
    import transformers

    tokenizer = transformers.BertTokenizer(str(path), do_lower_case=lower_case)
    # In text, "[MASK]" is text: as in Google's code, and unlike BertTokenizer's default.
    flags = {"add_special_tokens": False, "split_special_tokens": True}
    for first in range(0, len(texts), 2000):
        yield from tokenizer(texts[first : first + 2000], **flags)["input_ids"]


def by_tensorflow_text(path, lower_case, texts, normalizes=False):
    """In a graph, as an exported model does it.

    Left to normalize by itself, tensorflow-text folds case as Unicode's NFKC_Casefold does.
    """
    import tensorflow as tf
    import tensorflow_text

    tokenizer = tensorflow_text.FastBertTokenizer(
        list(tokenization.read_vocab(path)),
        lower_case_nfd_strip_accents=normalizes and lower_case,
        token_out_type=tf.int32,
    )

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def tokenize(strings):
        if not normalizes:
            strings = tf.strings.regex_replace(strings, r"[^\P{C}\t\n\r]|\x{fffd}", "")
            if lower_case:
                strings = tensorflow_text.normalize_utf8(strings, "NFD")
                strings = tf.strings.regex_replace(strings, r"\p{Mn}", "")
                strings = tf.strings.lower(strings, encoding="utf-8")
        return tokenizer.tokenize(strings)

    for first in range(0, len(texts), 2000):
        yield from tokenize(tf.constant(texts[first : first + 2000])).to_list()


@pytest.mark.parametrize("lower_case", [True, False], ids=["uncased", "cased"])
def test_ids_are_those_of_others(pubmedbert_vocab, some_texts, lower_case):
    """Equal to Hugging Face's two BertTokenizers and to Google's own, in Model Garden."""
    from official.nlp.tools import tokenization as google
    from transformers.models.bert import tokenization_bert_legacy as python

    encoder = load_fast_tokenizer(pubmedbert_vocab, lower_case)
    assert (encoder.kind, encoder.vocab_size) == ("wordpiece", 28895)
    vocab = tokenization.read_vocab(pubmedbert_vocab)
    assert encoder.special_ids == (0, 1, 2, 3, 4)
    texts = some_texts + AWKWARD
    assert len(some_texts) > 1300
    assert not differing(encoder, texts, by_hugging_face(pubmedbert_vocab, lower_case, texts))

    def by(basic, pieces):
        for text in texts:
            tokens = (token for word in basic.tokenize(text) for token in pieces.tokenize(word))
            yield [vocab[token] for token in tokens]

    # The one in Python composes characters first, so that cased text keeps "\u2260" in one piece.
    basic = python.BasicTokenizer(do_lower_case=lower_case)
    pieces = python.WordpieceTokenizer(vocab, "[UNK]", 100)
    differs = differing(encoder, texts, by(basic, pieces))
    assert differs == ([] if lower_case else [MARKS])
    # Google's gives up on words of 200 characters, not 100, and keeps private characters.
    original = google.FullTokenizer(str(pubmedbert_vocab), do_lower_case=lower_case)
    differs = differing(encoder, texts, by(original.basic_tokenizer, original.wordpiece_tokenizer))
    assert differs == [LONG, PRIVATE]


@pytest.mark.parametrize("lower_case", [True, False], ids=["uncased", "cased"])
def test_ids_are_those_of_a_graph(pubmedbert_vocab, some_texts, lower_case):
    encoder = load_fast_tokenizer(pubmedbert_vocab, lower_case)
    texts = some_texts + AWKWARD
    assert not differing(encoder, texts, by_tensorflow_text(pubmedbert_vocab, lower_case, texts))


@pytest.mark.slow
@pytest.mark.parametrize("lower_case", [True, False], ids=["uncased", "cased"])
def test_every_shipped_title_and_abstract(pubmedbert_vocab, all_texts, lower_case):
    """Equal to BertTokenizer, and to tensorflow-text in a graph."""
    encoder = load_fast_tokenizer(pubmedbert_vocab, lower_case)
    assert len(all_texts) > 100_000
    assert sum("[" in text for text in all_texts) > 10_000  # such as "[Article in German]"
    for others in (by_hugging_face, by_tensorflow_text):
        assert not differing(encoder, all_texts, others(pubmedbert_vocab, lower_case, all_texts))

    # What tensorflow-text does differently where it normalizes by itself: if uncased, it folds
    # case and compatibility forms ("\u2122" to "tm", "\u00b5" to "\u03bc", "\u00bd" to "1\u20442",
    # "\ufb01" to "fi", "\u2026" to "..."), and in any case it keeps invisible characters.
    alone = by_tensorflow_text(pubmedbert_vocab, lower_case, all_texts, normalizes=True)
    differs = differing(encoder, all_texts, alone)
    # 674 of 105,000 when this was written, and 0: documents have no invisible characters.
    assert bool(differs) == lower_case
    for text in differs:
        assert any(invisible(char) or (lower_case and folds(char)) for char in text), text


def without_marks(text):
    return "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")


def folds(char):
    folded = unicodedata.normalize("NFKC", char).casefold()
    return without_marks(folded) != without_marks(char).lower()


def invisible(char):
    return unicodedata.category(char) in ("Cf", "Co")


def test_what_is_remembered_changes_nothing(pubmedbert_vocab, some_texts, monkeypatch):
    expected, _ = load_fast_tokenizer(pubmedbert_vocab)(some_texts)
    monkeypatch.setattr(word_table, "_MOST_WORDS", 100)
    encoder = load_fast_tokenizer(pubmedbert_vocab)
    for _ in range(2):
        assert np.array_equal(encoder(some_texts)[0], expected)
    one_by_one = [encoder([text])[0] for text in some_texts]
    assert np.array_equal(np.concatenate(one_by_one), expected)
    ids, offsets = encoder([])
    assert len(ids) == 0 and offsets.tolist() == [0]


TEXT = "Immunohistochemistry showed hyperphosphorylated tau in 35 neurofibrillary tangles (p<0.05)."


def words_of(encoder, text):
    """The ids of a text, in lists that go on until a token begins a word."""
    ids, _ = encoder([text])
    starts = [i for i in range(1, len(ids)) if encoder.begins_word[ids[i]]]
    return [part.tolist() for part in np.split(ids, starts)]


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_sentencepiece_ids_are_the_library_s(some_texts, tmp_path, kind):
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(some_texts),
        model_writer=model,
        model_type=kind,
        vocab_size=2000,
        control_symbols=["[CLS]", "[SEP]", "[MASK]", "<pad>"],
        minloglevel=2,
    )
    path = tmp_path / "a.model"
    path.write_bytes(model.getvalue())
    encoder = load_fast_tokenizer(path)
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(path))
    texts = some_texts + AWKWARD
    assert (encoder.kind, encoder.vocab_size) == (kind, 2000)
    assert encoder.special_ids == (0, 3, 4, 5, 6)
    assert theirs.id_to_piece([encoder.pad_id, encoder.unk_id]) == ["<pad>", "<unk>"]
    assert theirs.id_to_piece([encoder.cls_id, encoder.mask_id]) == ["[CLS]", "[MASK]"]
    assert not differing(encoder, texts, map(theirs.encode, texts))
    assert list(map(theirs.decode, words_of(encoder, TEXT))) == TEXT.split()


def test_byte_bpe_ids_are_those_of_roberta(some_texts, tmp_path):
    import transformers
    from tokenizers import trainers

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = tokenization.byte_bpe()
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


def test_wordpiece_says_which_tokens_begin_a_word(pubmedbert_vocab):
    tokens = list(tokenization.read_vocab(pubmedbert_vocab))
    words = words_of(load_fast_tokenizer(pubmedbert_vocab), "Unsegmentables, naive ones")
    pieces = ["".join(tokens[i].removeprefix("##") for i in word) for word in words]
    assert pieces == ["unsegmentables", ",", "naive", "ones"]


def test_the_vocabulary_of_a_folder_is_found(pubmedbert_vocab, tmp_path):
    with pytest.raises(
        vocabularies.VocabularyError, match="has no vocab.txt, .* or tokenizer.json"
    ):
        vocabularies.find_vocabulary(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    found = vocabularies.find_vocabulary(tmp_path)
    assert vocabularies.vocabulary_files(found) == [tmp_path / "tokenizer.json"]
    (tmp_path / "vocab.json").write_text("{}")
    found = vocabularies.find_vocabulary(tmp_path)
    assert vocabularies.vocabulary_files(found) == [found, tmp_path / "merges.txt"]
    vocabularies.copy_vocabulary(pubmedbert_vocab, tmp_path)
    with pytest.raises(vocabularies.VocabularyError, match="has vocab.txt and vocab.json: remove"):
        vocabularies.find_vocabulary(tmp_path)


def test_encoding_does_not_need_tensorflow(pubmedbert_vocab):
    """It would cost 0.7 GB in each process that prepares data."""
    code = (
        "import sys; from tfbio.text import fast_tokenizer\n"
        f"encode = fast_tokenizer.load_fast_tokenizer({str(pubmedbert_vocab)!r})\n"
        "ids, _ = encode(['naïve T cells'])\n"
        "assert len(ids) == 3 and not {'tensorflow', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


# --- The tokenizer of fine-tuning ----------------------------------------------------------------

KINDS = ["wordpiece", "byte_bpe", "unigram", "bpe", "albert"]


def tokenizer_of(vocabulary_of_kind, kind, *new_tokens):
    return tokenization.load_tokenizer(vocabulary_of_kind[kind], kind != "byte_bpe", new_tokens)


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
            assert ids[0] != ids[1]
            assert (ids[2] == ids[3]) == (kind == "unigram")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"byte_fallback": True}, "has pieces for bytes"),
        ({"add_dummy_prefix": False}, "has no space before a text"),
        ({"remove_extra_whitespaces": False}, "keeps all spaces"),
        ({"model_type": "char"}, "is neither a unigram nor a BPE model"),
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
    with pytest.raises(vocabularies.VocabularyError, match=f"a.model {words}, which cannot"):
        tokenization.load_tokenizer(path)


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
