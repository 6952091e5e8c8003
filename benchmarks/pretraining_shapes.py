"""The models, batches and examples on which `benchmarks.pretraining` compares engines."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks import kept_folder
from benchmarks.child_process import ROOT
from tfbio.base import config
from tfbio.objectives.pretraining_config import PretrainingConfig

PARALLEL_PARTS = 2  # of tfbio: one on each of the machine's cores


@dataclasses.dataclass(frozen=True)
class Shape:
    """A model and a batch."""

    hparams: str
    sequence_length: int
    batch_size: int
    steps: int  # in one turn of an engine
    rounds: int  # tfbio's run.gradient_accumulation_steps, as tried out
    pairs: str = ""  # the objective of the examples, where they are pairs with a label
    changes: tuple[str, ...] = ()  # in the settings of `hparams`
    teacher: str = ""  # the hparams of the teacher that the model learns from, too

    @property
    def settings(self) -> PretrainingConfig:
        """The settings of `hparams`."""
        return config.load(PretrainingConfig, str(ROOT / "hparams" / self.hparams))

    @property
    def has_loss_of_labels(self) -> bool:
        """True if a model of `transformers` computes the loss from labels."""
        own = self.settings
        is_more = own.adversarial.weight or own.distillation.has_teacher
        return own.objective == "mlm" and not is_more

    @property
    def examples(self) -> str:
        """The name of the folder of its examples."""
        return "_".join(filter(None, ["examples", str(self.sequence_length), self.pairs]))

    def config(self, vocab_size: int, precision: str = "float32") -> PretrainingConfig:
        """Returns the settings of `hparams`, for one phase at this length."""
        settings = {
            "encoder.vocab_size": vocab_size,
            "sequence_length": self.sequence_length,
            "final_sequence_length": 0,
            "train_batch_size": self.batch_size,
            "run.gradient_accumulation_steps": self.rounds,
            "run.parallel_parts": PARALLEL_PARTS,
            "run.precision": precision,
            "gradient_clip_groups": 1,  # as all that it is compared with
        }
        overrides = [f"{name}={value}" for name, value in settings.items()]
        overrides += self.changes
        return config.load(PretrainingConfig, str(ROOT / "hparams" / self.hparams), overrides)

    def teacher_config(self, vocab_size: int) -> PretrainingConfig | None:
        """Returns the settings of the teacher; None without one."""
        if not self.teacher:
            return None
        vocabulary = [f"encoder.vocab_size={vocab_size}"]
        return config.load(PretrainingConfig, str(ROOT / "hparams" / self.teacher), vocabulary)


SHAPES = {
    "small_128": Shape("small.json", 128, 32, steps=3, rounds=2),
    "small_512": Shape("small.json", 512, 8, steps=2, rounds=2),
    "base_128": Shape("base.json", 128, 8, steps=2, rounds=1),
    "bert_base_128": Shape("pubmedbert.json", 128, 8, steps=2, rounds=1, pairs="next_sentence"),
    "roberta_base_128": Shape("biolm_base.json", 128, 8, steps=2, rounds=1),
    "adversarial_base_128": Shape(
        "pubmedbert_adversarial.json", 128, 8, steps=2, rounds=1, pairs="next_sentence"
    ),
    "distilled_base_128": Shape(
        "biolm_base_distilled.json", 128, 8, steps=2, rounds=1, teacher="biolm_large.json"
    ),
    "albert_base_128": Shape(
        "biom_albert.json",
        128,
        8,
        steps=2,
        rounds=1,
        pairs="sentence_order",
        changes=(
            "encoder.hidden_size=768",
            "encoder.num_attention_heads=12",
            "encoder.intermediate_size=3072",
            "optimizer=adamw",
            "lamb_bias_correction=true",
            "mask_unit=token",
        ),
    ),
}
# Shows in a minute whether all engines work on a machine.
TRIAL = "trial_128"
SHAPES[TRIAL] = Shape(
    "small.json",
    128,
    4,
    steps=1,
    rounds=1,
    changes=(
        "encoder.embedding_size=32",
        "encoder.hidden_size=32",
        "encoder.num_hidden_layers=1",
        "encoder.num_attention_heads=2",
        "encoder.intermediate_size=64",
        "generator_hidden_fraction=0.5",
    ),
)


def prepare(folder: Path, documents: str, vocab: str) -> None:
    """Makes what the engines read, in a folder, or checks that what is there is of the same flags.

    Args:
      folder: gets a vocabulary, examples of both lengths and encoded documents; `flags.json` says
        of which documents and vocabulary.
      documents: folder that `data_prep.documents` wrote; "" to make it.
      vocab: path of the vocabulary; "" to make it.

    Raises:
      UserError: what is there is of other flags, or it is not known of which.
    """
    folder.mkdir(parents=True, exist_ok=True)
    flags = {"documents": documents, "vocab": vocab}
    if (folder / "offsets.npy").exists():  # the last to be written
        kept_folder.check_flags(folder, flags)
        return
    _make(folder, documents, vocab)
    kept_folder.write_flags(folder, flags)


def _make(folder: Path, documents: str, vocab: str) -> None:
    """Makes what `prepare` puts into its folder."""
    from tfbio.base.document_records import read_documents
    from tfbio.text.fast_tokenizer import load_fast_tokenizer

    def stage(name: str, *flags: str) -> None:
        subprocess.run([sys.executable, "-m", f"data_prep.{name}", *flags], cwd=ROOT, check=True)

    if not documents:
        documents = f"{folder}/documents"
        stage("documents", f"--output={documents}")
    if vocab:
        shutil.copyfile(vocab, folder / "vocab.txt")
    else:
        stage(
            "vocabulary",
            f"--documents={documents}",
            "--size=30522",
            f"--output={folder}/vocab.txt",
        )
    for shape in {shape.examples: shape for shape in SHAPES.values()}.values():
        stage(
            "examples",
            f"--documents={documents}",
            f"--vocab={folder}/vocab.txt",
            f"--output={folder}/{shape.examples}",
            f"--sequence_length={shape.sequence_length}",
            f"--objective={shape.pairs}" if shape.pairs else "--packing",
        )
    encoder = load_fast_tokenizer(str(folder / "vocab.txt"), lower_case=True)
    encoded = []
    for document in read_documents(documents):
        ids, _ = encoder([text.encode() for text in (document.title, *document.sentences)])
        encoded.append(np.concatenate([[encoder.cls_id], ids, [encoder.sep_id]]).astype(np.int32))
    np.save(folder / "ids.npy", np.concatenate(encoded))
    np.save(folder / "offsets.npy", np.cumsum([0, *map(len, encoded)]))
