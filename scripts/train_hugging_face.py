r"""Pretrains a masked language model with Hugging Face `transformers` on PyTorch.

  python scripts/train_hugging_face.py --documents=out/documents --examples=out/examples \
      --model_dir=out/bert --set objective=mlm --set run.precision=bfloat16 --attention=eager

`compare_budgets.py` runs it. It reads blocks, or with --rows tfbio's rows, see
`hugging_face_batches.py`; masks are drawn anew in each step. The step is that of
`benchmarks/hugging_face_step.py`: the head of words on the masked positions alone, fused AdamW. The
settings are those of `run_pretraining.py`, and so is its bookkeeping: the same command continues an
interrupted run.

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
from pathlib import Path

# A thread that waits for another one sleeps: waiting is no CPU time that a budget should pay for.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Its other modules are found as a package, also where this file is run by its path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from tfbio.base import extras

try:
    import torch
    import transformers
except ModuleNotFoundError as missing:
    sys.exit(f"error: {extras.not_installed(missing.name or '')}")

from benchmarks.command import Parser, run
from benchmarks.hugging_face_mlm import model_config
from benchmarks.hugging_face_step import HuggingFaceStep, Masked, at_positions, masked_loss
from scripts.hugging_face_batches import Batch, Blocks, Rows
from tfbio.base import config, storage
from tfbio.base.errors import UserError
from tfbio.base.manifests import read_manifest
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.text.fast_tokenizer import FastTokenizer, load_fast_tokenizer

CHECKPOINT, RESULT = "checkpoint.pt", "result.json"
_HELD_OUT_SEED = 1_000_003  # of the masks on held-out text, the same in every evaluation


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
        self.model, self.pad_id = transformers.BertForMaskedLM(shape), encoder.pad_id
        self.start()
        self.loss = torch.compile(self.masked_loss) if compiled else self.masked_loss

    def masked_loss(self, batch: Batch, masked: Masked) -> torch.Tensor:
        """Computes the mean cross-entropy over the masked tokens of a batch, float32 [].

        Args:
          batch: what is read, see `Batch`.
          masked: what is hidden of it.
        """
        is_bfloat16 = self.config.run.precision == "bfloat16"
        context = {name: values for name, values in batch.items() if name != "input_ids"}
        if "attention_mask" in context:  # eager attention adds it to the scores
            dtype = torch.bfloat16 if is_bfloat16 else torch.float32
            hidden_from = ~context["attention_mask"]
            context["attention_mask"] = torch.zeros(hidden_from.shape, dtype=dtype).masked_fill_(
                hidden_from, torch.finfo(dtype).min
            )
        with torch.autocast("cpu", torch.bfloat16, enabled=is_bfloat16):
            hidden = self.model.bert(masked.input_ids, **context).last_hidden_state
            logits = self.model.cls(at_positions(hidden, masked.positions))
        ids = batch["input_ids"].gather(1, masked.positions)
        return masked_loss(logits.float(), ids, masked.weights)

    def hide(self, batch: Batch, seed: int, step: int) -> Masked:
        """Draws what is hidden of a batch; seeds all that follows in the step."""
        state = np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0]
        torch.manual_seed(int(state))
        ids = batch["input_ids"]
        return self.mask(ids, (ids != self.pad_id).long())

    def step(self, batch: Batch, step: int) -> float:
        """Takes one step of training on a batch, and returns its loss."""
        loss = self.loss(batch, self.hide(batch, self.config.seed, step))
        self.update(loss)
        return loss.detach().item()

    @torch.no_grad()
    def held_out_loss(self, texts: Blocks | Rows) -> float:
        """Computes the mean loss over held-out text, in whole batches without dropout."""
        losses = []
        self.eval()
        held_out = texts.held_out(self.config.train_batch_size, self.config.run.num_eval_batches)
        for number, batch in enumerate(held_out):
            masked = self.hide(batch, _HELD_OUT_SEED, number)
            losses.append(self.masked_loss(batch, masked).item())
        self.train()
        return float(np.mean(losses))


class Run:
    """A run in its folder.

    Args:
      settings: all settings.
      texts: what it reads.
      model_dir: the folder of the run.
      compiled, attention: see `BertPretraining`.

    Raises:
      UserError: the folder has a run of other settings.
    """

    def __init__(
        self,
        settings: PretrainingConfig,
        texts: Blocks | Rows,
        model_dir: str,
        compiled: bool = False,
        attention: str = "sdpa",
    ) -> None:
        self.settings, self.model_dir, self.texts = settings, Path(model_dir), texts
        torch.manual_seed(settings.seed)
        self.vocabulary = Path(texts.examples, "vocab.txt")
        self.encoder = load_fast_tokenizer(self.vocabulary)
        self.trainer = BertPretraining(settings, self.encoder, compiled, attention)
        # What is learnt depends on these.
        learnt = {**dataclasses.asdict(settings), "run": settings.run.precision}
        manifest = read_manifest(texts.examples, "examples")
        shards = [shard.sha256 for shard in manifest.shards]
        read = [type(texts).__name__, manifest.settings["documents_sha256"], shards]
        self.identity = json.dumps([learnt, *read, compiled, attention], sort_keys=True)
        self.first_step = 0
        if (path := self.model_dir / CHECKPOINT).exists():
            self._restore(torch.load(path, weights_only=True))

    def train(self) -> None:
        """Takes the steps that are left, and saves the model after the last one."""
        last = self.settings.num_train_steps
        end = max(self.first_step, min(last, self.settings.run.stop_at_step or last))
        every = self.settings.run.save_checkpoints_steps
        data = self.texts.training(
            self.settings.train_batch_size, self.settings.seed, self.first_step, end
        )
        for step, batch in zip(range(self.first_step, end), data, strict=True):
            loss = self.trainer.step(batch, step)
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
            "model": self.trainer.state_dict(),
            "optimizer": self.trainer.optimizer.state_dict(),
            "schedule": self.trainer.schedule.state_dict(),
        }
        with storage.written_whole(self.model_dir / CHECKPOINT) as stream:
            torch.save(checkpoint, stream)

    def _restore(self, checkpoint: dict) -> None:
        """Takes over weights, optimizer, schedule and step."""
        if checkpoint["identity"] != self.identity:
            raise UserError(
                f"--model_dir={self.model_dir} has a run of other settings: give another folder."
            )
        self.trainer.load_state_dict(checkpoint["model"])
        self.trainer.optimizer.load_state_dict(checkpoint["optimizer"])
        self.trainer.schedule.load_state_dict(checkpoint["schedule"])
        self.first_step = checkpoint["step"]

    def _finish(self) -> None:
        """Writes the model, as `transformers` does, and then the held-out loss."""
        self.trainer.model.save_pretrained(self.model_dir)
        shutil.copyfile(self.vocabulary, self.model_dir / "vocab.txt")
        lower_case = read_manifest(self.texts.examples, "examples").settings["lower_case"]
        tokenizer = {"do_lower_case": lower_case, "tokenizer_class": "BertTokenizer"}
        storage.write_text(self.model_dir / "tokenizer_config.json", json.dumps(tokenizer))
        loss = self.trainer.held_out_loss(self.texts)
        result = {"steps": self.settings.num_train_steps, "held_out": {"loss": loss}}
        storage.write_text(self.model_dir / RESULT, json.dumps(result) + "\n")
        print(f"held-out loss {loss:.4f}", flush=True)


def main() -> None:
    """Pretrains to the end, or goes on."""
    parser = Parser(__doc__)
    parser.add_argument("--examples", required=True, help="folder that data_prep.examples wrote")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--documents", help="read blocks of these documents, of which the examples were made"
    )
    source.add_argument("--rows", action="store_true", help="read the rows of the examples")
    parser.add_argument("--model_dir", required=True, help="folder of the run")
    parser.add_argument("--set", action="append", default=[], help="NAME=VALUE of a setting")
    parser.add_argument("--compile", action="store_true", help="compile the step")
    parser.add_argument(
        "--attention", default="sdpa", choices=["sdpa", "eager"], help="sdpa is the fused one"
    )
    flags = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    settings = config.load(PretrainingConfig, "", flags.set)
    texts = Rows(flags.examples) if flags.rows else Blocks(flags.documents, flags.examples)
    pretraining = Run(settings, texts, flags.model_dir, flags.compile, flags.attention)
    if Path(flags.model_dir, RESULT).exists():
        print(f"{flags.model_dir} is complete.")
    else:
        pretraining.train()


if __name__ == "__main__":
    run(main)
