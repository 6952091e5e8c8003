"""Reads the vocabulary in a `tokenizer.json` of the library `tokenizers`."""

from __future__ import annotations

import base64
import json
import os

from tfbio.base import file_paths, json_files
from tfbio.text import sentencepiece_model
from tfbio.text.special_tokens import SENTENCEPIECE_SPECIAL_TOKENS, VocabularyError


def vocabulary_files(path: str | os.PathLike) -> dict[str, bytes]:
    """Reads the vocabulary in a `tokenizer.json`, the only file that `transformers` 5 saves.

    Args:
      path: the `tokenizer.json`.

    Returns:
      The content of files by their names: of `vocab.txt` (WordPiece), of `vocab.json` and
      `merges.txt` (byte-level BPE), or of `vocab.model` (a unigram model).

    Raises:
      VocabularyError: it is missing or no JSON object, or holds none of these.
    """
    tokenizer = json_files.read_object_or_empty(file_paths.at(path))
    model, added = tokenizer.get("model", {}), tokenizer.get("added_tokens", [])
    try:
        if isinstance(model.get("vocab"), list):
            return {"vocab.model": _sentencepiece(tokenizer)}
        vocab = model["vocab"] | {token["content"]: token["id"] for token in added}
        tokens = sorted(vocab, key=vocab.__getitem__)
        if [vocab[token] for token in tokens] != list(range(len(tokens))):
            raise ValueError("its ids are not 0, 1, 2 and so on")
        if model.get("continuing_subword_prefix") == "##":
            return {"vocab.txt": "".join(f"{token}\n" for token in tokens).encode()}
        if "ByteLevel" not in json.dumps(tokenizer["pre_tokenizer"]):
            raise ValueError("it is neither WordPiece, nor byte-level BPE, nor Unigram")
        # A merge is "a b", or in newer files ["a", "b"].
        merges = (x if isinstance(x, str) else " ".join(x) for x in model["merges"])
        lines = "".join(f"{merge}\n" for merge in ("#version: 0.2", *merges))
        return {
            "vocab.json": json.dumps(vocab, ensure_ascii=False).encode(),
            "merges.txt": lines.encode(),
        }
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise VocabularyError(
            f"{path} holds no vocabulary that can be used ({reason}): give a folder with "
            "vocab.txt, with vocab.json and merges.txt, or with spiece.model."
        ) from error


def _sentencepiece(tokenizer: dict) -> bytes:
    """Returns a serialized SentencePiece model with the pieces and the normalizer of a tokenizer.

    Args:
      tokenizer: the content of a `tokenizer.json`.
    """
    own, unknown = tokenizer["model"], tokenizer["model"]["unk_id"]
    special = {token["content"] for token in tokenizer["added_tokens"] if token["special"]}
    model = sentencepiece_model.ModelProto()
    for number, (piece, score) in enumerate(own["vocab"]):
        piece_type = sentencepiece_model.NORMAL
        if number == unknown:
            piece_type = sentencepiece_model.UNKNOWN
        elif piece in special:
            piece_type = sentencepiece_model.CONTROL
        model.pieces.add(piece=piece, score=score, type=piece_type)
    names = [piece.piece for piece in model.pieces]
    spec = model.trainer_spec
    spec.model_type, spec.vocab_size = sentencepiece_model.UNIGRAM, len(names)
    spec.unk_id, spec.unk_piece, spec.bos_id, spec.eos_id = unknown, names[unknown], -1, -1
    pad = SENTENCEPIECE_SPECIAL_TOKENS[0]
    spec.pad_id = names.index(pad) if pad in names else -1
    normalizer = tokenizer.get("normalizer") or {}
    for part in normalizer.get("normalizers", [normalizer]):
        if part.get("type") == "Precompiled":
            charsmap = base64.b64decode(part["precompiled_charsmap"])
            model.normalizer_spec.precompiled_charsmap = charsmap
    return model.SerializeToString()
