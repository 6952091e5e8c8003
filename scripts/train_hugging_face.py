r"""Pretrains a masked language model with Hugging Face `transformers` on PyTorch.

  python scripts/train_hugging_face.py --documents=out/documents --examples=out/examples \
      --model_dir=out/bert --set objective=mlm --set run.precision=bfloat16 --attention=eager

`compare_budgets.py` runs it. As in the example `run_mlm` of `transformers`, the documents lie one
after another in blocks without padding, every token sees its whole block, and masks are drawn anew
in each step. The step is that of `benchmarks/hugging_face_step.py`: the head of words on the masked
positions alone, fused AdamW. The settings are those of `run_pretraining.py`, and so is its
bookkeeping: the same command continues an interrupted run.

The vocabulary, the length and the articles that are held out are those of the examples, which
`data_prep.examples` made of the documents. What a step reads, hides and drops depends on the seed
and the step alone, so a run that continues needs no more than the step's number for that.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

# A thread that waits for another one sleeps: waiting is no CPU time that a budget should pay for.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch
import transformers

# Its other modules are found as a package, also where this file is run by its path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.command import Parser, run
from benchmarks.hugging_face_mlm import model_config
from benchmarks.hugging_face_step import HuggingFaceStep, Masked, at_positions, masked_loss
from tfbio.base import config, file_paths, storage
from tfbio.base.document_records import read_documents
from tfbio.base.errors import UserError
from tfbio.base.held_out import is_held_out
from tfbio.base.manifests import MANIFEST, read_manifest
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.text.fast_tokenizer import FastTokenizer, load_fast_tokenizer

CHECKPOINT, RESULT = "checkpoint.pt", "result.json"
_HELD_OUT_SEED = 1_000_003  # of the masks on held-out blocks, the same in every evaluation


class BertPretraining(HuggingFaceStep):
    """`BertForMaskedLM` with its optimizer.

    Args:
      settings: all settings.
      encoder: the tokenizer, for its special tokens.
      compiled: True to compile the loss by `torch.compile`.
      attention: the implementation in `transformers`, "sdpa" (fused) or "eager".
    """

    def __init__(
        self,
        settings: PretrainingConfig,
        encoder: FastTokenizer,
        compiled: bool = False,
        attention: str = "sdpa",
    ):
        super().__init__(settings, encoder)
        shape = model_config("Bert", settings.encoder, encoder.pad_id)
        shape._attn_implementation = attention
        self.model = transformers.BertForMaskedLM(shape)
        self.start()
        self.loss = torch.compile(self.masked_loss) if compiled else self.masked_loss

    def masked_loss(self, input_ids: torch.Tensor, masked: Masked) -> torch.Tensor:
        """Computes the mean cross-entropy over the masked tokens of blocks, float32 [].

        Args:
          input_ids: int64 [B, L].
          masked: what is hidden of them.
        """
        dtype = torch.bfloat16
        with torch.autocast("cpu", dtype, enabled=self.config.run.precision == "bfloat16"):
            hidden = self.model.bert(masked.input_ids).last_hidden_state
            logits = self.model.cls(at_positions(hidden, masked.positions))
        ids = input_ids.gather(1, masked.positions)
        return masked_loss(logits.float(), ids, masked.weights)

    def hide(self, input_ids: torch.Tensor, seed: int, step: int) -> Masked:
        """Draws what is hidden of blocks, int64 [B, L]; seeds all that follows in the step."""
        state = np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0]
        torch.manual_seed(int(state))
        return self.mask(input_ids, torch.ones_like(input_ids))

    def step(self, input_ids: torch.Tensor, step: int) -> float:
        """Takes one step of training on blocks, int64 [B, L], and returns its loss."""
        loss = self.loss(input_ids, self.hide(input_ids, self.config.seed, step))
        self.update(loss)
        return loss.detach().item()

    @torch.no_grad()
    def held_out_loss(self, blocks: np.ndarray) -> float:
        """Computes the mean loss over blocks, int64 [N, L], in whole batches without dropout."""
        size = self.config.train_batch_size
        batches = min(self.config.run.num_eval_batches, len(blocks) // size)
        losses = []
        self.eval()
        for number in range(batches):
            ids = torch.from_numpy(blocks[number * size : (number + 1) * size])
            losses.append(self.masked_loss(ids, self.hide(ids, _HELD_OUT_SEED, number)).item())
        self.train()
        return float(np.mean(losses))


def read_blocks(documents: str, examples: str, split: str) -> np.ndarray:
    """Encodes documents, and cuts them, one after another, into blocks without padding.

    As `group_texts` of `run_mlm` does with texts that have their [CLS] and [SEP].

    Args:
      documents: a folder that `data_prep.documents` wrote.
      examples: a folder that `data_prep.examples` made of them.
      split: "train", or "heldout", the articles that the examples hold out.

    Returns:
      int64 [blocks, sequence_length]; the tokens after the last whole block are left out.

    Raises:
      UserError: the examples are not of these documents.
    """
    of = read_manifest(examples, "examples").settings
    if of["documents_sha256"] != storage.sha256_of(file_paths.at(documents, MANIFEST)):
        raise UserError(
            f"--examples={examples} was made of other documents than --documents={documents}."
        )
    encoder = load_fast_tokenizer(Path(examples, "vocab.txt"), of["lower_case"])
    texts = []
    for document in read_documents(documents):
        if is_held_out(document.article, of["held_out_fraction"]) == (split == "heldout"):
            ids, _ = encoder([text.encode() for text in (document.title, *document.sentences)])
            texts += [[encoder.cls_id], ids, [encoder.sep_id]]
    ids, length = np.concatenate(texts), of["sequence_length"]
    return ids[: len(ids) // length * length].reshape(-1, length).astype(np.int64)


def batches(blocks: np.ndarray, size: int, seed: int, first_step: int) -> Iterator[torch.Tensor]:
    """Yields the batches of the steps from `first_step` on, int64 [size, L], without end.

    Args:
      blocks: int64 [N, L]; each is read once an epoch, in an order that seed and epoch fix.
      size: blocks of a batch.
      seed: keys the order.
      first_step: the step at which a run begins or continues.
    """
    in_an_epoch = len(blocks) // size
    epoch, first = divmod(first_step, in_an_epoch)
    while True:
        order = np.random.default_rng([seed, epoch]).permutation(len(blocks))
        for number in range(first, in_an_epoch):
            yield torch.from_numpy(blocks[order[number * size : (number + 1) * size]])
        epoch, first = epoch + 1, 0


class Run:
    """A run in its folder.

    Args:
      settings: all settings.
      documents, examples: the folders of both, see `read_blocks`.
      model_dir: the folder of the run.
      compiled, attention: see `BertPretraining`.

    Raises:
      UserError: the folder has a run of other settings.
    """

    def __init__(
        self,
        settings: PretrainingConfig,
        documents: str,
        examples: str,
        model_dir: str,
        compiled: bool = False,
        attention: str = "sdpa",
    ) -> None:
        self.settings, self.model_dir = settings, Path(model_dir)
        self.documents, self.examples = documents, examples
        torch.manual_seed(settings.seed)
        self.vocabulary = Path(examples, "vocab.txt")
        self.encoder = load_fast_tokenizer(self.vocabulary)
        self.trainer = BertPretraining(settings, self.encoder, compiled, attention)
        # What is learnt depends on these.
        learnt = {**dataclasses.asdict(settings), "run": settings.run.precision}
        self.identity = json.dumps([learnt, examples, compiled, attention], sort_keys=True)
        self.first_step, self.cpu_before = 0, 0.0
        if (path := self.model_dir / CHECKPOINT).exists():
            self._restore(torch.load(path, weights_only=True))

    def train(self) -> None:
        """Takes the steps that are left, and saves the model after the last one."""
        last = self.settings.num_train_steps
        end = min(last, self.settings.run.stop_at_step or last)
        every = self.settings.run.save_checkpoints_steps
        blocks = read_blocks(self.documents, self.examples, "train")
        size = self.settings.train_batch_size
        if len(blocks) < size:
            raise UserError(f"{self.examples} has {len(blocks)} blocks, fewer than a batch.")
        data = batches(blocks, size, self.settings.seed, self.first_step)
        for step, ids in zip(range(self.first_step, end), data, strict=False):
            loss = self.trainer.step(ids, step)
            if (step + 1) % every == 0 or step + 1 == end:
                self._save(step + 1)
                print(f"step {step + 1:,} of {last:,}: loss {loss:.4f}", flush=True)
        if end == last:
            self._finish()

    def _save(self, step: int) -> None:
        """Writes the checkpoint, all that a run needs to continue."""
        self.model_dir.mkdir(parents=True, exist_ok=True)
        checkpoint = {
            "identity": self.identity,
            "step": step,
            "cpu_seconds": self.cpu_before + _cpu_seconds(),
            "model": self.trainer.state_dict(),
            "optimizer": self.trainer.optimizer.state_dict(),
            "schedule": self.trainer.schedule.state_dict(),
        }
        with storage.written_whole(self.model_dir / CHECKPOINT) as stream:
            torch.save(checkpoint, stream)

    def _restore(self, checkpoint: dict) -> None:
        """Takes over weights, optimizer, schedule, step and CPU time."""
        if checkpoint["identity"] != self.identity:
            raise UserError(
                f"--model_dir={self.model_dir} has a run of other settings: give another folder."
            )
        self.trainer.load_state_dict(checkpoint["model"])
        self.trainer.optimizer.load_state_dict(checkpoint["optimizer"])
        self.trainer.schedule.load_state_dict(checkpoint["schedule"])
        self.first_step, self.cpu_before = checkpoint["step"], checkpoint["cpu_seconds"]

    def _finish(self) -> None:
        """Writes the model, as `transformers` does, and then the held-out loss."""
        self.trainer.model.save_pretrained(self.model_dir)
        shutil.copyfile(self.vocabulary, self.model_dir / "vocab.txt")
        lower_case = read_manifest(self.examples, "examples").settings["lower_case"]
        tokenizer = {"do_lower_case": lower_case, "tokenizer_class": "BertTokenizer"}
        storage.write_text(self.model_dir / "tokenizer_config.json", json.dumps(tokenizer))
        loss = self.trainer.held_out_loss(read_blocks(self.documents, self.examples, "heldout"))
        result = {
            "steps": self.settings.num_train_steps,
            "held_out": {"loss": loss},
            "cpu_seconds": self.cpu_before + _cpu_seconds(),
        }
        storage.write_text(self.model_dir / RESULT, json.dumps(result) + "\n")
        print(f"held-out loss {loss:.4f}", flush=True)


def _cpu_seconds() -> float:
    """Returns the CPU time of this process and of those that it started."""
    return sum(os.times()[:4])


def main() -> None:
    """Pretrains to the end, or goes on."""
    parser = Parser(__doc__)
    parser.add_argument("--documents", required=True, help="folder that data_prep.documents wrote")
    parser.add_argument("--examples", required=True, help="that data_prep.examples made of them")
    parser.add_argument("--model_dir", required=True, help="folder of the run")
    parser.add_argument("--set", action="append", default=[], help="NAME=VALUE of a setting")
    parser.add_argument("--compile", action="store_true", help="compile the step")
    parser.add_argument(
        "--attention", default="sdpa", choices=["sdpa", "eager"], help="sdpa is the fused one"
    )
    flags = parser.parse_args()
    if Path(flags.model_dir, RESULT).exists():
        print(f"{flags.model_dir} is complete.")
        return
    torch.set_num_threads(os.cpu_count() or 1)
    settings = config.load(PretrainingConfig, "", flags.set)
    pretraining = Run(
        settings, flags.documents, flags.examples, flags.model_dir, flags.compile, flags.attention
    )
    pretraining.train()


if __name__ == "__main__":
    run(main)
