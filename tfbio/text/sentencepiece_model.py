"""Reads SentencePiece's `*.model` files, and makes tokenizers of `tokenizers` from them.

The files are protocol buffers. The messages are those of `sentencepiece_model.proto`
(google/sentencepiece), with the fields that are used here. The library's Python module for them
needs a newer protobuf than TensorFlow accepts.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tfbio.base import file_paths, messages
from tfbio.text import special_tokens
from tfbio.text.special_tokens import SENTENCEPIECE_SPECIAL_TOKENS, VocabularyError

if TYPE_CHECKING:
    import sentencepiece
    import tokenizers
    from google.protobuf.message import Message as ModelProto

# The character for the space before a word, the first one of the word's first piece.
SPACE = "\u2581"

# `ModelProto.SentencePiece.Type`.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
# `TrainerSpec.ModelType`.
UNIGRAM, BPE, CHAR = 1, 2, 4

# The fields of each message: name, number, type, and default.
_MESSAGES: dict[str, list[tuple[str, int, str, str | None]]] = {
    "Piece": [
        ("piece", 1, "string", ""),
        ("score", 2, "float", "0"),
        ("type", 3, "int32", str(NORMAL)),
    ],
    "TrainerSpec": [
        ("model_type", 3, "int32", str(UNIGRAM)),
        ("vocab_size", 4, "int32", "8000"),
        ("treat_whitespace_as_suffix", 24, "bool", "false"),
        ("byte_fallback", 35, "bool", "false"),
        ("unk_id", 40, "int32", "0"),
        ("bos_id", 41, "int32", "1"),
        ("eos_id", 42, "int32", "2"),
        ("pad_id", 43, "int32", "-1"),
        ("unk_piece", 45, "string", "<unk>"),
        ("pad_piece", 48, "string", "<pad>"),
    ],
    "NormalizerSpec": [
        ("name", 1, "string", ""),
        ("precompiled_charsmap", 2, "bytes", ""),
        ("add_dummy_prefix", 3, "bool", "true"),
        ("remove_extra_whitespaces", 4, "bool", "true"),
        ("escape_whitespaces", 5, "bool", "true"),
    ],
    "ModelProto": [
        ("pieces", 1, "Piece", None),
        ("trainer_spec", 2, "TrainerSpec", ""),
        ("normalizer_spec", 3, "NormalizerSpec", ""),
    ],
}


def _model_class() -> Any:
    """Builds the class of a model's message."""
    file = descriptor_pb2.FileDescriptorProto(
        name="tfbio/proto", package="tfbio.sentencepiece", syntax="proto2"
    )
    types = descriptor_pb2.FieldDescriptorProto
    for name, fields in _MESSAGES.items():
        described = file.message_type.add(name=name)
        for field, number, field_type, default in fields:
            own = described.field.add(name=field, number=number, label=types.LABEL_OPTIONAL)
            if default is None:
                own.label = types.LABEL_REPEATED
            if field_type in _MESSAGES:
                own.type, own.type_name = types.TYPE_MESSAGE, f".tfbio.sentencepiece.{field_type}"
            else:
                own.type = getattr(types, f"TYPE_{field_type.upper()}")
                own.default_value = default
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName("tfbio.sentencepiece.ModelProto")
    )


if not TYPE_CHECKING:
    # A model: `ModelProto.FromString(bytes)` reads one. Messages have no types.
    ModelProto = _model_class()


def lower_cases_first(model: ModelProto, lower_case: bool) -> bool:
    """Returns True if ALBERT's rules must lower-case text before a SentencePiece model cuts it.

    That is so if the model has no piece with a capital letter and its normalizer keeps capital
    letters, so that each of them would be unknown.

    Args:
      model: the model.
      lower_case: whether text is to be lower-cased at all; if False, the result is False.

    Raises:
      ValueError: the normalizer is damaged.
    """
    pieces = (piece.piece for piece in model.pieces if piece.type == NORMAL)
    if not lower_case or any(char.isupper() for piece in pieces for char in piece):
        return False
    return not folds_case(model)


def folds_case(model: ModelProto) -> bool:
    """Returns True if a SentencePiece model's normalizer lower-cases text; False if it has none.

    Raises:
      ValueError: the normalizer is damaged.
    """
    return any(own.normalize_str("A") == "a" for own in _own_normalizers(model))


def albert_normalizers() -> list[tokenizers.normalizers.Normalizer]:
    """Makes the normalizers that ALBERT has before its SentencePiece model, in the order of use.

    They are ALBERT's code (`preprocess_text` in google-research/albert): they replace `` and '' by
    ", as `transformers.AlbertTokenizer` does, then apply NFKD, strip accents and lower-case. The
    list has five normalizers of the library `tokenizers`.
    """
    from tokenizers import normalizers

    quotes = [normalizers.Replace(quote, '"') for quote in ("``", "''")]
    return [*quotes, normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]


def _own_normalizers(model: ModelProto) -> list[tokenizers.normalizers.Normalizer]:
    """Returns the normalizer in a model, if it has one.

    Raises:
      ValueError: the normalizer is damaged.
    """
    from tokenizers import normalizers

    charsmap = model.normalizer_spec.precompiled_charsmap
    if not charsmap:
        return []
    if not _is_whole(charsmap):
        raise ValueError("has a normalizer that is damaged or cut short")
    try:
        return [normalizers.Precompiled(charsmap)]
    except Exception as error:  # the library raises nothing more exact
        raise ValueError(f"has a normalizer that is damaged ({error})") from error


def _is_whole(charsmap: bytes) -> bool:
    """Returns True if every path through a normalizer ends; the library panics where one does not.

    A normalizer is the size of a trie, the trie, and the replacement texts, each with a zero byte
    after it (`Normalizer::DecodePrecompiledCharsMap` in google/sentencepiece). The trie is an array
    of units of 32 bits (`DoubleArrayUnit` in s-yata/darts-clone). A leaf has its highest bit set
    and the offset of a text; any other unit leads to up to 256 units, one for each byte.
    """
    size = int.from_bytes(charsmap[:4], "little")
    if not size or size % 4 or size > len(charsmap) - 4:
        return False
    units = np.frombuffer(charsmap, "<u4", size // 4, offset=4).astype(np.int64)
    texts = np.frombuffer(charsmap, np.uint8, offset=4 + size)
    begins = np.concatenate([[True], texts[:-1] == 0])[: len(texts)]
    is_leaf = units >> 31 == 1
    places = units[is_leaf] & 0x7FFFFFFF
    # The first of the units that a unit leads to is its leaf, if it has one.
    first = np.arange(len(units)) ^ (units >> 10 << ((units & 1 << 9) >> 6))
    inside = is_leaf | (first | 0xFF < len(units))
    if not (inside.all() and (places < len(texts)).all()):
        return False
    with_leaf = ~is_leaf & (units >> 8 & 1 == 1)
    return bool(begins[places].all() and is_leaf[first[with_leaf]].all())


def normalizer_to_bytes(model: ModelProto) -> bytes:
    """Makes a SentencePiece model that cuts text into the bytes that another one normalizes it to.

    The library gives only tokens, and so gives the normalized text, too. Spaces stay as they are. A
    byte's offset is that of the text which it was made of.

    Args:
      model: the model whose normalizer to use.

    Returns:
      A serialized `ModelProto`, in which the byte b has the id b + 1.
    """
    made = ModelProto()
    made.pieces.add(piece="<unk>", type=UNKNOWN)
    for byte in range(256):
        made.pieces.add(piece=f"<0x{byte:02X}>", type=BYTE)
    trained = made.trainer_spec
    trained.model_type, trained.byte_fallback, trained.vocab_size = CHAR, True, len(made.pieces)
    trained.unk_id, trained.bos_id, trained.eos_id = 0, -1, -1
    made.normalizer_spec.precompiled_charsmap = model.normalizer_spec.precompiled_charsmap
    made.normalizer_spec.add_dummy_prefix = False
    made.normalizer_spec.remove_extra_whitespaces = False
    made.normalizer_spec.escape_whitespaces = False
    return made.SerializeToString()


def tokenizer(
    model: ModelProto, lower_case: bool, special_names: bool = False
) -> tokenizers.Tokenizer:
    """Makes a tokenizer of `tokenizers`, which knows tokens' offsets, from a SentencePiece model.

    It cuts words one by one, as the library does. If two ways to cut a word are equally likely to
    the last bit, such as "66" + "6" and "6" + "66", the library may take the other one. As for
    `transformers`, but not for the library, U+0085 is a space, and so is other whitespace that the
    model's normalizer keeps. The Hangul that `albert_normalizers` decompose stays so, too.

    Args:
      model: the model.
      lower_case: whether to lower-case text; see `lower_cases_first`.
      special_names: whether special tokens such as [CLS] keep their names. A unigram tokenizer
        with such names would find them in text, too.

    Returns:
      A `tokenizers.Tokenizer` with the ids of the model, without special tokens around a text.

    Raises:
      ValueError: the library `tokenizers` lacks a feature of the model, which the message names;
        the model has a piece twice or no unknown piece; or its normalizer is damaged.
    """
    import tokenizers
    from tokenizers import models, normalizers, pre_tokenizers

    spec, model_type = model.normalizer_spec, model.trainer_spec.model_type
    pieces = [piece.piece for piece in model.pieces]
    for problem, is_so in (
        ("is neither a unigram nor a BPE model", model_type not in (UNIGRAM, BPE)),
        ("has pieces for bytes", any(piece.type == BYTE for piece in model.pieces)),
        ("writes the space after a word", model.trainer_spec.treat_whitespace_as_suffix),
        ("has pieces that go over spaces", any(SPACE in piece[1:] for piece in pieces)),
        ("has no space before a text", not spec.add_dummy_prefix),
        ("keeps all spaces", not spec.remove_extra_whitespaces),
        ("has a piece twice", len(set(pieces)) < len(pieces)),
        (
            "has no piece for what is unknown",
            not 0 <= model.trainer_spec.unk_id < len(pieces),
        ),
    ):
        if is_so:
            raise ValueError(problem)
    own: models.Model
    if model_type == UNIGRAM:
        own = models.Unigram(_scores(model, special_names), unk_id=model.trainer_spec.unk_id)
    else:
        vocab = {piece: number for number, piece in enumerate(pieces)}
        unknown = pieces[model.trainer_spec.unk_id]
        own = models.BPE(vocab, _merges(model), unk_token=unknown, fuse_unk=True)
    made = tokenizers.Tokenizer(own)
    before: list[normalizers.Normalizer] = []
    if lower_cases_first(model, lower_case):
        before += albert_normalizers()
    if folds_case(model):
        # The library puts what stands for a capital letter in place of the accents behind it, too.
        before.append(normalizers.NFC())
    made.normalizer = normalizers.Sequence([*before, *_own_normalizers(model)])
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always"),
        ]
    )
    return made


def _scores(model: ModelProto, special_names: bool) -> list[tuple[str, float]]:
    """Returns the pieces with their scores; those that a user defined get SentencePiece's score."""
    best = max((piece.score for piece in model.pieces if piece.type == NORMAL), default=0.0)
    scores = []
    for piece in model.pieces:
        name, score = piece.piece, piece.score
        if piece.type == USER_DEFINED:
            # `unigram_model.cc`, Model::EncodeOptimized: it wins over all other pieces.
            score = len(name.encode()) * best - 0.1
        elif piece.type != NORMAL and not special_names:
            name = f" {name}"  # words have no spaces
        scores.append((name, score))
    return scores


def _merges(model: ModelProto) -> list[tuple[str, str]]:
    """Returns the pairs of pieces that make a piece, in the library's order of merging."""
    known = {piece.piece for piece in model.pieces if piece.type in (NORMAL, USER_DEFINED)}
    merges = []
    by_score = sorted((x for x in model.pieces if x.type == NORMAL), key=lambda x: -x.score)
    for piece in (x.piece for x in by_score):
        pairs = ((piece[:end], piece[end:]) for end in range(1, len(piece)))
        merges += [pair for pair in pairs if known.issuperset(pair)]
    return merges


def read(
    path: str | os.PathLike,
) -> tuple[ModelProto, sentencepiece.SentencePieceProcessor]:
    """Reads a SentencePiece model from its `*.model` file.

    Args:
      path: the file.

    Returns:
      Its content, a `ModelProto`, and the library's `SentencePieceProcessor` of it.

    Raises:
      VocabularyError: the file is missing or damaged, or lacks a special token.
    """
    import sentencepiece
    from google.protobuf.message import DecodeError

    try:
        model = file_paths.at(path).read_bytes()
    except OSError as error:
        raise VocabularyError(
            f"the vocabulary {path} cannot be read ({messages.reason(error)}): give a "
            "SentencePiece *.model, or make one with `python -m data_prep.vocabulary`."
        ) from error
    try:
        processor = sentencepiece.SentencePieceProcessor()
        # The constructor would accept an empty file and make no model of it.
        processor.LoadFromSerializedProto(model)
        content = ModelProto.FromString(model)
        folds_case(content)  # fails if the normalizer is damaged
    except (RuntimeError, DecodeError, ValueError) as error:
        raise VocabularyError(
            f"{path} is not a SentencePiece model: make one with `python -m data_prep.vocabulary`."
        ) from error
    special = [processor.piece_to_id(token) for token in SENTENCEPIECE_SPECIAL_TOKENS]
    known = map(processor.id_to_piece, special)
    special_tokens.check_special(path, SENTENCEPIECE_SPECIAL_TOKENS, set(known))
    return content, processor


def kind_of(processor: sentencepiece.SentencePieceProcessor) -> str:
    """Returns the kind of the SentencePiece model that a processor holds: "unigram" or "bpe"."""
    # BPE's scores are the order of its merges, 0, -1, -2; a unigram model's are logarithms of
    # probabilities.
    scores = map(processor.get_score, range(processor.get_piece_size()))
    return "bpe" if all(score.is_integer() for score in scores) else "unigram"
