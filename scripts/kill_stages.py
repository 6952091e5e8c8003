"""The stages that `kills.py` kills, with the input of the first ones.

Each stage reads what those before it have written, so their order is that of the data.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
from collections.abc import Sequence
from pathlib import Path

from data_prep.readers import input_files
from tfbio.base.document_records import read_documents


@dataclasses.dataclass(frozen=True)
class Stage:
    """Describes a command, and how to see its output.

    Attributes:
      command: as typed, with {run} for the folder of its own that its output goes to, and {IN} for
        the folder where those of the stages before are.
      done: the file or folder, in {run}, with which the output is complete.
      after: a command that reads the output, and has to refuse what is not complete.
      usable: a pattern of what is complete by itself, which that command may take.
      appear: patterns of files that TensorFlow writes, at which to kill as well.
    """

    command: str
    done: str
    after: str = ""
    usable: str = ""
    appear: Sequence[str] = ()


STAGES = {
    "documents": Stage(
        "-m data_prep.documents --input={IN}/pubmed --shard_megabytes=0.07 --workers=2 "
        "--output={run}/out",
        "out/manifest.json",
        "-m data_prep.vocabulary --documents={run}/out --output={IN}/no.txt",
    ),
    "vocabulary": Stage(
        "-m data_prep.vocabulary --documents={IN}/documents/out --size=5000 "
        "--output={run}/vocab.txt",
        "vocab.manifest.json",
        "-m data_prep.examples --documents={IN}/documents/out --vocab={run}/vocab.txt "
        "--output={IN}/no",
    ),
    "examples": Stage(
        "-m data_prep.examples --documents={IN}/documents/out --vocab={IN}/vocabulary/vocab.txt "
        "--sequence_length=64 --held_out_fraction=0.2 --shards=4 --workers=2 --output={run}/out",
        "out/manifest.json",
        "run_pretraining.py --examples={run}/out --model_dir={IN}/no",
    ),
    "sentence_roles": Stage(
        "-m data_prep.sentence_roles --documents={IN}/documents/out --held_out_fraction=0.3 "
        "--output={run}/out",
        "out/manifest.json",
        "run_finetuning.py --task=sentence_roles --data_dir={run}/out --output_dir={IN}/no "
        "--init_checkpoint={IN}/no",
    ),
    "corpus": Stage(
        "-m data_prep.corpora.biobert_folds --input={IN}/folds --output={run}/out",
        "out/train.tsv",
        "run_finetuning.py --task=gad --data_dir={run}/out --output_dir={IN}/no "
        "--init_checkpoint={IN}/no",
    ),
    "pretraining": Stage(
        "run_pretraining.py --examples={IN}/examples/out --hparams={IN}/tiny.json "
        "--model_dir={run}/out",
        "out/ckpt-6.index",
        "-m tfbio.convert --from={run}/out --to={IN}/no",
        "out/ckpt-*.index",
        appear=(
            "out/ckpt-2_temp/*",
            "out/ckpt-2.index",
            "out/logs/heldout/*",
            "out/ckpt-4.data*",
        ),
    ),
    "fine-tuning": Stage(
        "run_finetuning.py --task=ner --data_dir={IN}/ner --init_checkpoint={IN}/pretraining/out "
        "--output_dir={run}/out --seeds=2 --set train_batch_size=16 --set num_train_epochs=1 "
        "--set sequence_length=64",
        "out/scores.json",
        "run_finetuning.py --mode=predict --model={run}/out --input={IN}/texts --output={IN}/no",
        "out/trial_?/scores.json",
        appear=("out/trial_0.unfinished/model*", "out/logs/trial_1/*"),
    ),
    "prediction": Stage(
        "run_finetuning.py --mode=predict --model={IN}/fine-tuning/out --input={IN}/texts "
        "--output={run}/out.jsonl",
        "out.jsonl",
    ),
    "annotation": Stage(
        "run_finetuning.py --mode=predict --model={IN}/fine-tuning/out --input={IN}/texts "
        "--output_dir={run}/out --processes=2",
        "out/manifest.json",
    ),
    "prediction_brat": Stage(
        "run_finetuning.py --mode=predict --model={IN}/fine-tuning/out --input={IN}/texts "
        "--format=brat --output={run}/out",
        "out",
    ),
    "hugging_face": Stage(
        "-m tfbio.convert --from={IN}/pretraining/out --to={run}/out",
        "out",
        "-m tfbio.convert --from={run}/out --to={IN}/no --format=tfbio",
    ),
    "tfbio": Stage(
        "-m tfbio.convert --from={IN}/hugging_face/out --to={run}/out --format=tfbio",
        "out",
        "run_finetuning.py --task=ner --data_dir={IN}/ner --init_checkpoint={run}/out "
        "--output_dir={IN}/no",
        appear=("out.unfinished/ckpt-0_temp/*", "out.unfinished/ckpt-0.index"),
    ),
    "saved_model": Stage(
        "-m tfbio.convert --from={IN}/fine-tuning/out --to={run}/out --format=saved_model",
        "out",
        appear=(
            "out.unfinished/1",
            "out.unfinished/1/variables/*",
            "out.unfinished/1/saved_model.pb",
        ),
    ),
    "report": Stage(
        "-m tfbio.report --finetuning={IN}/fine-tuning/out --pretraining={IN}/pretraining/out "
        "--output={run}/out",
        "out/report.md",
    ),
}

# An encoder for pretraining that takes no time, which is saved three times.
TINY = {
    "encoder": {
        "vocab_size": 5000,
        "embedding_size": 32,
        "hidden_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 96,
        "max_position_embeddings": 64,
    },
    "generator_hidden_fraction": 0.5,
    "sequence_length": 64,
    "train_batch_size": 8,
    "num_train_steps": 6,
    "num_warmup_steps": 1,
    "run": {
        "steps_per_loop": 2,
        "save_checkpoints_steps": 2,
        "eval_every_steps": 2,
        "num_eval_batches": 1,
    },
}


def prepare(inputs: Path) -> None:
    """Writes the input of the first stages: 300 articles, and a release of one fold."""
    (inputs / "pubmed").mkdir(parents=True)
    for path, articles in zip(input_files.shipped_files(".xml.gz"), (100, 200), strict=True):
        with (
            gzip.open(path, "rt", encoding="utf-8") as source,
            gzip.open(inputs / "pubmed" / os.path.basename(path), "wt", encoding="utf-8") as cut,
        ):
            for line in source:
                cut.write(line)
                articles -= "</PubmedArticle>" in line
                if not articles:
                    break
            cut.write("</PubmedArticleSet>\n")


def prepare_sentences(inputs: Path) -> None:
    """Writes inputs with sentences of the documents: a release of one fold, words with tags, texts.

    Labels and tags mean nothing: nothing is to be learnt.
    """
    documents = read_documents(inputs / "documents" / "out")
    sentences = [" ".join(s.split()) for document in documents for s in document.sentences]
    fold = inputs / "folds" / "1"
    fold.mkdir(parents=True)
    rows = [f"{sentence}\t{len(sentence) % 2}\n" for sentence in sentences]
    (fold / "train.tsv").write_text("".join(rows[:900]), encoding="utf-8")
    numbered = (f"{number}\t{row}" for number, row in enumerate(rows[900:1100]))
    (fold / "test.tsv").write_text("index\tsentence\tlabel\n" + "".join(numbered), encoding="utf-8")

    (inputs / "ner").mkdir()
    for split, start, end in (("train", 0, 64), ("dev", 64, 80), ("test", 80, 96)):
        lines = ("\n".join(map(_tagged, text.split())) + "\n\n" for text in sentences[start:end])
        (inputs / "ner" / f"{split}.tsv").write_text("".join(lines), encoding="utf-8")
    (inputs / "texts").mkdir()
    for number in range(40):
        text = " ".join(sentences[5 * number : 5 * number + 5])
        (inputs / "texts" / f"{number}.txt").write_text(text + "\n", encoding="utf-8")
    (inputs / "tiny.json").write_text(json.dumps(TINY))


def _tagged(word: str) -> str:
    return f"{word}\t{'B' if word[-1] in 'es' else 'O'}"
