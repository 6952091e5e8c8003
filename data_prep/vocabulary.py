"""Stage 2: documents in, a vocabulary out.

    python -m data_prep.vocabulary --documents=out/documents --output=out/vocab.txt --size=30522
    python -m data_prep.vocabulary --documents=out/documents --output=out/30k.model \\
        --kind=unigram --size=30000
    python -m data_prep.vocabulary --documents=out/documents --output=out/bpe/vocab.json \\
        --kind=byte_bpe --size=50000

Reads the folder that `python -m data_prep.documents` wrote, and learns the subwords of its text:

- wordpiece, as in BERT and ELECTRA: `vocab.txt`, one token a line, the special tokens first;
- unigram and bpe, SentencePiece's, as in ALBERT: `*.model`, and `*.vocab` to look at;
- byte_bpe, as in RoBERTa: `vocab.json`, with `merges.txt` beside it.

The same documents and flags give the same bytes on every machine. Memory grows with the text that
is learnt from, so it is a sample of the documents unless there are few. `<name>.manifest.json`
keeps the settings, so that a second run can tell whether there is anything to do.
Next: `python -m data_prep.fertility --help`, `python -m data_prep.examples --help`.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from absl import flags

from data_prep.running import command, work_folder
from tfbio.base import cli, storage
from tfbio.base.document_records import hash_fraction, read_documents
from tfbio.base.manifests import MANIFEST, Manifest, read_manifest, write_manifest
from tfbio.base.shards import DataError, Shard
from tfbio.text import tokenization, vocabularies
from tfbio.text.fast_tokenizer import load_fast_tokenizer

# Each kind, with how the name of its file must end for `load_fast_tokenizer` to know it.
KINDS = {"wordpiece": ".txt", "unigram": ".model", "bpe": ".model", "byte_bpe": ".json"}

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
    """Learns a WordPiece vocabulary; the same texts always give the same tokens.

    Hugging Face's trainer alone does not: it numbers the characters inside of words (`##a`) in
    the order of a hash table that is seeded anew in every process, and breaks ties between equally
    frequent pairs by those numbers. Here the alphabet is counted first, and given in order.

    Args:
      texts: gives the texts to learn from; called twice.
      size: tokens in the vocabulary; fewer where the texts do not have as many.
      lower_case: whether the text is lower-cased and stripped of accents first.

    Returns:
      The tokens in order of id.

    Raises:
      UserError: `size` leaves no room for the characters.
    """
    from tokenizers import trainers

    tokenizer = tokenization.wordpiece({vocabularies.UNK: 0}, lower_case)
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
    first = [*vocabularies.SPECIAL_TOKENS, *alphabet, *inner]
    if size < len(first):
        raise cli.UserError(
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
    """Learns a SentencePiece model; the same texts always give the same bytes.

    The model itself says what is done to text before it is cut: SentencePiece's own rule
    "nmt_nfkc" (Unicode's NFKC, and all whitespace to one space), with `lower_case` "nmt_nfkc_cf"
    (the same with case folded). Accents stay, where ALBERT's own code strips them: so load it with
    `transformers.AlbertTokenizer(..., keep_accents=True)`. The special tokens have ALBERT's
    numbers: <pad> 0, <unk> 1, [CLS] 2, [SEP] 3, [MASK] 4; none is ever found in a text.

    Args:
      texts: the texts to learn from, at best one sentence each. All are held in memory: measured,
        20 bytes for each byte of text where `kind` is "unigram", 8 where it is "bpe".
      kind: "unigram" or "bpe".
      size: pieces in the vocabulary, exactly.
      lower_case: whether the model folds case.

    Returns:
      The model, and its pieces with their scores as text, one a line.

    Raises:
      UserError: `size` leaves no room for the characters, or is more than the texts have.
    """
    import sentencepiece

    pad, unk, *others = vocabularies.SENTENCEPIECE_SPECIAL_TOKENS
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
        raise cli.UserError(_size_problem(size, str(error))) from error
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = range(processor.get_piece_size())
    lines = [f"{processor.id_to_piece(i)}\t{processor.get_score(i):g}\n" for i in pieces]
    return model.getvalue(), "".join(lines)


def _size_problem(size: int, message: str) -> str:
    """What the user can do about an error of SentencePiece's trainer."""
    if found := re.search(r"too high .* value <= (\d+)", message):
        return f"--size={size} is too large: these documents have no more than {found[1]} pieces."
    if found := re.search(r"smaller than required_chars. \d+ vs (\d+)", message):
        return (
            f"--size={size} is too small: the special tokens and the characters of these "
            f"documents alone are {found[1]}."
        )
    return f"SentencePiece cannot learn a vocabulary of --size={size} here: {message.strip()}"


def train_byte_bpe(texts: Iterable[str], size: int) -> tuple[str, str]:
    """Learns a byte-level BPE; the same texts always give the same merges.

    Text is cut as it is: nothing is lower-cased, and every byte has a token, so none is unknown.

    Args:
      texts: the texts to learn from.
      size: tokens in the vocabulary; fewer where the texts do not have as many.

    Returns:
      The content of `vocab.json` and of `merges.txt`.

    Raises:
      UserError: `size` leaves no room for the bytes.
    """
    from tokenizers import pre_tokenizers, trainers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    if size < len(_BYTE_BPE_FIRST) + len(alphabet):
        raise cli.UserError(
            f"--size={size} is too small: the special tokens and the bytes alone are "
            f"{len(_BYTE_BPE_FIRST) + len(alphabet)}."
        )
    tokenizer = tokenization.byte_bpe()
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


def make_vocabulary(
    documents: str | os.PathLike,
    output: str | os.PathLike,
    *,
    kind: str = "wordpiece",
    size: int = 30522,
    lower_case: bool | None = None,
    sample_documents: int = 100_000,
    overwrite: bool = False,
) -> Manifest:
    """Runs the stage; the arguments are the command's flags.

    Returns:
      The manifest beside `output`.

    Raises:
      UserError: the arguments do not go together, or `size` does not suit the documents.
      DataError: `documents` is not a folder of documents, or `output` has other settings.
    """
    from tqdm import tqdm

    output = storage.at(output)
    if output.suffix != KINDS[kind]:
        raise cli.UsageError(
            f"--output={output} does not suit --kind={kind}: the name must end in {KINDS[kind]}."
        )
    if kind == "byte_bpe" and lower_case:
        raise cli.UsageError(
            "--lower_case does not go with --kind=byte_bpe, which keeps all bytes."
        )
    lower_case = kind != "byte_bpe" if lower_case is None else lower_case
    source = read_manifest(documents, "documents")
    settings = {
        "documents_sha256": storage.sha256_of(storage.at(documents, MANIFEST)),
        "kind": kind,
        "size": size,
        "lower_case": lower_case,
        "sample_documents": sample_documents,
    }
    manifest_path = output.with_name(f"{output.stem}.manifest.json")
    manifest = work_folder.finished(manifest_path, "vocabulary", settings, overwrite)
    if manifest is not None:
        command.say(f"{output} is complete and is reused.")
        return manifest

    total = source.counts.get("documents", 0)
    share = sample_documents / total if 0 < sample_documents < total else 1.0
    learnt_from = 0

    def texts() -> Iterator[str]:
        nonlocal learnt_from
        learnt_from = 0
        found = read_documents(documents, source.shards)
        for document in tqdm(found, "vocabulary", total, disable=None, unit=" documents"):
            # Which documents are in the sample depends on nothing but their ids.
            if hash_fraction(f"vocabulary {document.id}") < share:
                learnt_from += 1
                yield document.title
                yield from document.sentences

    if kind == "wordpiece":
        tokens = train_wordpiece(texts, size, lower_case)
        files = {output: "".join(f"{token}\n" for token in tokens).encode()}
    elif kind == "byte_bpe":
        vocab, merges = train_byte_bpe(texts(), size)
        files = {output: vocab.encode(), output.with_name("merges.txt"): merges.encode()}
    else:
        model, vocab = train_sentencepiece(texts(), kind, size, lower_case)
        files = {output: model, output.with_suffix(".vocab"): vocab.encode()}

    # The same bytes without a manifest are what a run left that was killed before its last step.
    foreign = [path for path in files if path.exists() and path.read_bytes() != files[path]]
    if foreign and not manifest_path.exists() and not overwrite:
        raise DataError(
            f"{foreign[0]} exists, but not {manifest_path.name}, so it is not this command's: add "
            "--overwrite to replace it, or give another --output."
        )
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        manifest_path.unlink(missing_ok=True)
        for path in (*files, manifest_path):
            storage.remove_half_written(path)
        for path, content in files.items():
            with storage.written_whole(path) as stream:
                stream.write(content)
    except OSError as error:
        raise DataError(f"cannot write {output}: {storage.reason(error)}.") from error
    counts = {
        "tokens": load_fast_tokenizer(output).vocab_size,
        "documents": learnt_from,
    }
    shards = [
        Shard(path.name, counts["tokens"], len(content), hashlib.sha256(content).hexdigest())
        for path, content in files.items()
    ]
    manifest = Manifest("vocabulary", settings, counts, shards)
    write_manifest(manifest_path, manifest)
    return manifest


def define_flags() -> None:
    """Defines the command's flags."""
    flags.DEFINE_string("documents", None, "Folder of documents to learn from.", required=True)
    flags.DEFINE_string(
        "output",
        None,
        "The vocab.txt (wordpiece), *.model (unigram, bpe) or vocab.json (byte_bpe) to write.",
        required=True,
    )
    flags.DEFINE_enum("kind", "wordpiece", list(KINDS), "What the text is cut into, and how.")
    flags.DEFINE_integer("size", 30522, "Number of tokens.", lower_bound=1)
    flags.DEFINE_bool(
        "lower_case",
        None,
        "Uncased: wordpiece lower-cases the text and strips accents, a unigram or bpe model folds "
        "case itself. Default: yes, but byte_bpe keeps every byte.",
    )
    flags.DEFINE_integer(
        "sample_documents",
        100_000,
        "Learn from about so many documents, drawn by a hash of their ids; 0: from all. Memory: "
        "unigram takes 20 bytes for each byte of text (3 GB for 100,000 abstracts), bpe 8, the "
        "others only what the different words take.",
        lower_bound=0,
    )
    command.define_common_flags(runs_beam=False)


def main(argv: list[str]) -> None:
    """The command."""
    cli.no_arguments(argv)
    flag = flags.FLAGS
    with storage.only_writer(flag.output):
        manifest = make_vocabulary(
            flag.documents,
            flag.output,
            kind=flag.kind,
            size=flag.size,
            lower_case=flag.lower_case,
            sample_documents=flag.sample_documents,
            overwrite=flag.overwrite,
        )
    counts = manifest.counts
    command.say(
        f"{counts['tokens']:,} tokens in {flag.output}, learnt from {counts['documents']:,} "
        "documents"
    )
    if missing := max(flag.size - counts["tokens"], 0):
        command.say(
            f"--size={flag.size} asked for {missing:,} more, but no two tokens that could be "
            "joined stand together twice in these documents. Learn from more documents, or give "
            f"pretraining --set encoder.vocab_size={counts['tokens']}."
        )


if __name__ == "__main__":
    cli.run(main, define_flags)
