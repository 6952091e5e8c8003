"""Learns vocabularies from texts: WordPiece, SentencePiece and byte-level BPE.

`data_prep.vocabulary` calls it. The same texts always give the same bytes.
"""

from __future__ import annotations

import io
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from tfbio.base import errors
from tfbio.text import byte_bpe, special_tokens, wordpiece

# Characters beyond the most frequent thousand become [UNK], as BERT's own vocabulary does.
_ALPHABET = 1000

# Share of the text's characters that SentencePiece keeps. With its default, 0.9995, accents and
# signs go missing: 0.26 % of the tokens of the shipped PubMed files are unknown; so, 0.006 %.
_COVERAGE = 0.99999

# The order in which fairseq numbers RoBERTa's special tokens, with <mask> among them as in bio-lm.
_BYTE_BPE_FIRST = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")


def train_wordpiece(
    texts: Callable[[], Iterable[str]], size: int, lower_case: bool = True
) -> list[str]:
    """Trains a WordPiece vocabulary on texts; the same texts always give the same tokens.

    Hugging Face's trainer alone is not deterministic: it numbers the characters inside of words
    (`##a`) in the order of a hash table that is seeded anew in every process, and breaks ties
    between equally frequent pairs by those numbers. Here the alphabet is counted first, and given
    to the trainer in order.

    Args:
      texts: a function that returns the texts to learn from; called twice.
      size: the number of tokens in the vocabulary; fewer where the texts do not have as many.
      lower_case: True to lower-case the text and strip its accents first.

    Returns:
      The tokens as a list of strings in order of id, the special tokens first.

    Raises:
      UserError: `size` leaves no room for the characters.
    """
    from tokenizers import trainers

    tokenizer = wordpiece.make_tokenizer({special_tokens.UNK: 0}, lower_case)
    counts: Counter[str] = Counter()
    for text in texts():
        counts.update(tokenizer.normalizer.normalize_str(text))
    by_count = sorted(counts, key=lambda char: (-counts[char], char))
    alphabet = sorted([char for char in by_count if not char.isspace()][:_ALPHABET])
    # Punctuation always stands alone, so it has no form for the inside of a word.
    inner = [
        f"##{char}"
        for char in alphabet
        if len(tokenizer.pre_tokenizer.pre_tokenize_str(f"a{char}")) == 1
    ]
    first = [*special_tokens.SPECIAL_TOKENS, *alphabet, *inner]
    if size < len(first):
        raise errors.UserError(
            f"--size={size} is too small: the special tokens and the characters of these documents "
            f"alone are {len(first)}."
        )
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=first,
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts(), trainer)
    vocab = tokenizer.get_vocab()
    return sorted(vocab, key=vocab.__getitem__)


def train_sentencepiece(
    texts: Iterable[str], kind: str, size: int, lower_case: bool = True
) -> tuple[bytes, str]:
    """Trains a SentencePiece vocabulary on texts; the same texts always give the same bytes.

    The model itself normalizes text before it cuts it, by SentencePiece's rule "nmt_nfkc"
    (Unicode's NFKC, and all whitespace to one space), with `lower_case` by "nmt_nfkc_cf" (the same
    with case folded). Accents stay, where ALBERT's own code strips them: so load it with
    `transformers.AlbertTokenizer(..., keep_accents=True)`. The special tokens have ALBERT's
    numbers: <pad> 0, <unk> 1, [CLS] 2, [SEP] 3, [MASK] 4; no text ever contains them.

    Args:
      texts: the texts to learn from, at best one sentence each. All are held in memory: 20 bytes
        were measured for each byte of text where `kind` is "unigram", 8 where it is "bpe".
      kind: "unigram" or "bpe".
      size: the number of tokens in the vocabulary, exactly.
      lower_case: True to make the model fold case.

    Returns:
      A pair: the content of the `.model` file as bytes, and one string with a line
      `token<TAB>score` for each token, in order of id.

    Raises:
      UserError: `size` leaves no room for the characters, or is more than the texts have.
    """
    import sentencepiece

    pad, unk, *others = special_tokens.SENTENCEPIECE_SPECIAL_TOKENS
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            model_type=kind,
            vocab_size=size,
            character_coverage=_COVERAGE,
            normalization_rule_name="nmt_nfkc_cf" if lower_case else "nmt_nfkc",
            pad_id=0,
            unk_id=1,
            bos_id=-1,
            eos_id=-1,
            pad_piece=pad,
            unk_piece=unk,
            control_symbols=others,
            # Its default leaves out sentences of more than 4,192 bytes without a word.
            max_sentence_length=1 << 30,
            # Sums over texts depend on how many threads they are shared out to.
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise errors.UserError(_size_problem(size, str(error))) from error
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = range(processor.get_piece_size())
    lines = [f"{processor.id_to_piece(i)}\t{processor.get_score(i):g}\n" for i in pieces]
    return model.getvalue(), "".join(lines)


def _size_problem(size: int, message: str) -> str:
    """Returns the message that tells the user how to avoid an error of SentencePiece's trainer."""
    if most := re.search(r"too high .* value <= (\d+)", message):
        return f"--size={size} is too large: these documents have no more than {most[1]} tokens."
    if least := re.search(r"smaller than required_chars. \d+ vs (\d+)", message):
        return (
            f"--size={size} is too small: the special tokens and the characters of these "
            f"documents alone are {least[1]}."
        )
    return f"SentencePiece cannot learn a vocabulary of --size={size} here: {message.strip()}"


def train_byte_bpe(texts: Iterable[str], size: int) -> tuple[str, str]:
    """Trains a byte-level BPE vocabulary on texts; the same texts always give the same merges.

    Text is cut as it is: nothing is lower-cased, and every byte has a token, so none is unknown.

    Args:
      texts: the texts to learn from.
      size: the number of tokens in the vocabulary; fewer where the texts do not have as many.

    Returns:
      A pair of strings: the content of `vocab.json` (an object from token to id) and of
      `merges.txt` (one merge of two tokens a line).

    Raises:
      UserError: `size` leaves no room for the bytes.
    """
    from tokenizers import pre_tokenizers, trainers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    if size < len(_BYTE_BPE_FIRST) + len(alphabet):
        raise errors.UserError(
            f"--size={size} is too small: the special tokens and the bytes alone are "
            f"{len(_BYTE_BPE_FIRST) + len(alphabet)}."
        )
    tokenizer = byte_bpe.make_tokenizer()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=list(_BYTE_BPE_FIRST),
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    with tempfile.TemporaryDirectory() as folder:
        paths = map(Path, tokenizer.model.save(folder))
        content = {path.name: path.read_text(encoding="utf-8") for path in paths}
    return content["vocab.json"], content["merges.txt"]
