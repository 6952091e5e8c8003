"""Answers that are spans of a context: SQuAD, and BioASQ's factoid questions.

The input is [CLS] question [SEP] context [SEP]; each token has a logit for the start of the answer
and one for its end (Devlin et al., 2019, section 4.2). A context that is too long is seen in
windows that overlap, as in BERT's `run_squad.py`; where a window does not hold the answer, [CLS]
is its start and end. ELECTRA's own head (`span_head.py`) scores ends for a start, and "no answer".
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tfbio.base.cli import UserError
from tfbio.base.config import BaseSettings, ConfigError, require, setting
from tfbio.base.lazy import tensorflow as tf
from tfbio.formats import task_files
from tfbio.formats.splits import hold_out
from tfbio.formats.task_examples import Question
from tfbio.models.head_config import HeadConfig
from tfbio.task_types import answers, predictions
from tfbio.task_types.finetuning_config import CommonSettings
from tfbio.task_types.packing import Features
from tfbio.task_types.scores import Scores
from tfbio.task_types.serving.served_questions import ServedQuestions
from tfbio.task_types.task import SQUAD_SETTINGS, OwnTask, score_answers
from tfbio.task_types.task_type import Score, TaskType
from tfbio.text.tokenization import Tokenizer

if TYPE_CHECKING:
    from tfbio.models.span_head import TrainingLogits

# `max_query_length` and `doc_stride` of `run_squad.py`, in tokens.
MAX_QUESTION = 64
STRIDE = 128
# Of the loss for "no answer", beside the mean of those of start and end
# (`answerable_weight` of configure_finetuning.py in google-research/electra).
NO_ANSWER_WEIGHT = 0.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionFeatures(Features):
    """Features, and what leads from their tokens to the context.

    Attributes:
      input_ids, segment_ids, example, per_token, per_window, positions: see `packing.Features`.
      offsets: for each window int32 [context tokens, 2], the characters [start, end) of each.
      own: for each window bool [context tokens], see `answers.Window`.
    """

    offsets: list[np.ndarray]
    own: list[np.ndarray]


def windows(count: int, room: int, stride: int = 0) -> list[tuple[int, int]]:
    """Returns first and end of each window of `count` tokens; each holds at most `room`.

    They begin every `stride` tokens. By default these are `STRIDE`, or half a window where that is
    less: else short windows would not overlap, and none would hold an answer at their border.
    """
    stride = min(stride, room) if stride else min(STRIDE, -(-room // 2))
    firsts = range(0, max(count - room, 0) + stride, stride)
    return [(first, min(first + room, count)) for first in firsts]


def most_context(count: int, spans: Sequence[tuple[int, int]]) -> list[np.ndarray]:
    """Returns, for each window, bool [tokens]: the tokens around which it has the most context.

    That is the smaller number of tokens on either side, and a hundredth of the window's; the first
    of equals (`_check_is_max_context` of `run_squad.py`).
    """
    scores = np.full([len(spans), count], -np.inf)
    for row, (first, end) in zip(scores, spans, strict=True):
        before = np.arange(end - first)
        row[first:end] = np.minimum(before, before[::-1]) + 0.01 * (end - first)
    best = scores.argmax(axis=0)
    return [best[first:end] == number for number, (first, end) in enumerate(spans)]


def answer_tokens(question: Question, offsets: np.ndarray) -> tuple[int, int] | None:
    """Returns the first and last token of the first answer whose place is known, or None.

    Args:
      question: with its answers.
      offsets: int32 [tokens, 2], the characters [start, end) of the context's tokens.
    """
    for text, start in zip(question.answers, question.answer_starts, strict=True):
        inside = (offsets[:, 1] > start) & (offsets[:, 0] < start + len(text))
        if start >= 0 and inside.any():
            places = np.flatnonzero(inside)
            return int(places[0]), int(places[-1])
    return None


class QuestionAnswering(TaskType):
    """A task type that finds an answer's start and end in a context; see `TaskType` for attributes.

    Args:
      labels: none.
      settings: a `QuestionAnswering.Settings`; None for its defaults.

    Attributes:
      beam_size: the setting with ELECTRA's head, else 0.
      rules: `answers.Rules`, the limits on answers.
    """

    name = "question_answering"
    of_tokens = True
    calibration_name = "null_threshold"
    new_text = "questions"
    served = ServedQuestions
    hugging_face_class = "ForQuestionAnswering"
    hugging_face_head = "qa_outputs"
    own_tasks = (
        OwnTask(
            "qa",
            lambda path, labels: task_files.read_squad(path),
            lambda labels: score_answers,
            settings=SQUAD_SETTINGS,
            hold_out=hold_out,
        ),
    )
    num_outputs = 2

    @dataclasses.dataclass(frozen=True)
    class Settings(BaseSettings):
        """Settings of question answering.

        Attributes:
          head: "bert" or "electra"; `beam_size` is the starts, and ends of each, of the latter.
          max_query_length, doc_stride: of the windows, in tokens; 0 as in BERT's `run_squad.py`.
          n_best_size, max_answer_length: the most answers of a question, and tokens of an answer.
        """

        group = "question_answering."

        head: str = setting(
            "bert",
            "bert: each token has a score as the start of the answer and one as its end; electra: "
            "the head of the original ELECTRA code, whose ends depend on the start (see "
            "tfbio/models/span_head.py).",
            choices=("bert", "electra"),
        )
        beam_size: int = setting(
            20, "With head electra: starts that are followed, and ends of each.", at_least=1
        )
        max_query_length: int = setting(
            0,
            "The most tokens of a question. 0: 64, as in BERT's run_squad.py, or half of a window "
            "if that is less.",
        )
        doc_stride: int = setting(
            0,
            "The first tokens of the windows of a long context are so many apart. 0: 128, as in "
            "BERT's run_squad.py, or half of a window if that is less.",
        )
        n_best_size: int = setting(20, "How many answers are kept of a question.", at_least=1)
        max_answer_length: int = setting(30, "The most tokens of an answer.", at_least=1)

        def check_together(self) -> None:
            """Raises a ConfigError if `beam_size` is changed, and the head is not "electra"."""
            require(
                self.head == "electra" or self.beam_size == type(self).beam_size,
                "question_answering.beam_size goes with question_answering.head = electra; of head "
                "bert n_best_size is the number",
            )

    settings: Settings

    def __init__(self, labels: Sequence[str] = (), settings: Settings | None = None):
        super().__init__((), settings)
        own = self.settings
        self.beam_size = own.beam_size if own.head == "electra" else 0
        self.rules = answers.Rules(own.n_best_size, own.max_answer_length, self.beam_size)

    @classmethod
    def from_settings(cls, labels: Sequence[str], config: CommonSettings) -> Self:
        """Returns the type; raises a ConfigError if questions leave no room for a context."""
        made = super().from_settings(labels, config)
        longest = config.sequence_length - 5
        require(
            made.settings.max_query_length <= longest,
            f"question_answering.max_query_length {made.settings.max_query_length} leaves no room "
            f"for a context in sequence_length {config.sequence_length}: give {longest} or less.",
        )
        return made

    def head_config(self, dropout_prob: float) -> HeadConfig:
        """Returns the shape of a head with two outputs for each token, and `beam_size`."""
        return HeadConfig(
            self.num_outputs, of_tokens=True, dropout_prob=dropout_prob, beam_size=self.beam_size
        )

    def question_room(self, length: int, special: int) -> int:
        """Returns the most tokens of a question in a window.

        Args:
          length: of the window.
          special: its special tokens.
        """
        # By default the context has half of a short window at least.
        return self.settings.max_query_length or min(MAX_QUESTION, (length - special) // 2)

    def features(
        self, questions: Sequence[Question], tokenizer: Tokenizer, length: int
    ) -> QuestionFeatures:
        """Returns the windows of each question.

        Targets are int32 [2], the tokens of the answer, or 0 and 0; for ELECTRA's head [3], with 1
        where the question has no answer.

        Raises:
          ConfigError: the head is ELECTRA's, and the encoder does not tell question and context
            apart.
        """
        texts = list({text for x in questions for text in (x.question, x.context)})
        encoded = {
            text: (np.array(e.ids, np.int32), np.array(e.offsets, np.int32).reshape(-1, 2))
            for text, e in zip(texts, tokenizer.encode(texts), strict=True)
        }
        special = tokenizer.special_tokens(pair=True)
        made = QuestionFeatures(
            [], [], np.zeros(0, np.int64), per_window={"targets": []}, offsets=[], own=[]
        )
        example = []
        for number, question in enumerate(questions):
            asked = encoded[question.question][0][: self.question_room(length, special)]
            ids, offsets = encoded[question.context]
            before = len(asked) + special - 1
            spans = windows(len(ids), length - before - 1, self.settings.doc_stride)
            answer = answer_tokens(question, offsets)
            for (first, end), own in zip(spans, most_context(len(ids), spans), strict=True):
                both, segments = tokenizer.join(asked, ids[first:end])
                made.input_ids.append(both)
                made.segment_ids.append(segments)
                target = np.zeros(3 if self.beam_size else 2, np.int32)
                if answer and first <= answer[0] and answer[1] < end:
                    target[:2] = np.array(answer, np.int32) + before - first
                target[2:] = not question.answers
                if self.beam_size and not np.any(segments):
                    raise ConfigError(
                        "question_answering.head electra needs an encoder with two segments, for "
                        "the question and the context; this one has one: give head = bert."
                    )
                made.per_window["targets"].append(target)
                made.offsets.append(offsets[first:end])
                made.own.append(own)
                example.append(number)
        return dataclasses.replace(made, example=np.array(example, np.int64))

    def losses(
        self, logits: tf.Tensor | TrainingLogits, batch: dict[str, tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes the cross-entropy over the tokens of a window, the mean of start and end.

        With ELECTRA's head also `NO_ANSWER_WEIGHT` times that of "no answer".

        Args:
          logits: float32 [tokens, 2]; or those of ELECTRA's head.
          batch: the arrays of `packing.fill`, with `targets`, int32 [windows, 2] or [windows, 3].

        Returns:
          The losses and their weights, 1; float32 [windows] each.
        """
        # Imported late: the head needs TensorFlow at once.
        from tfbio.models.span_head import TrainingLogits, log_softmax

        # Rows hold several windows, so the softmax is over segments. Padding is one of its own, the
        # first: what it adds up to is left out.
        window = tf.reshape(batch["document_ids"], [-1])
        if isinstance(logits, TrainingLogits):
            (count,) = batch["first"].shape
            places = batch["first"][:, tf.newaxis] + batch["targets"]
            start, end = (
                tf.gather(log_softmax(own, window, count), places[:, side])
                for side, own in enumerate((logits.start, logits.end))
            )
            no_answer = tf.nn.sigmoid_cross_entropy_with_logits(
                tf.cast(batch["targets"][:, 2], start.dtype), logits.no_answer
            )
            losses = NO_ANSWER_WEIGHT * no_answer - (start + end) / 2.0
            return losses, tf.ones_like(losses)
        number = batch["first"].shape[0] + 1
        highest = tf.stop_gradient(tf.math.unsorted_segment_max(logits, window, number))
        shifted = logits - tf.gather(highest, window)
        total = tf.math.unsorted_segment_sum(tf.exp(shifted), window, number)[1:]
        places = batch["first"][:, tf.newaxis] + batch["targets"]
        true = tf.gather(tf.transpose(shifted), tf.transpose(places), batch_dims=1)  # [2, windows]
        # Of a text at least 1, that of its highest token; of none 0, which has no logarithm.
        total = tf.maximum(total, 1.0)
        losses = tf.reduce_mean(tf.math.log(total) - tf.transpose(true), axis=1)
        return losses, tf.ones_like(losses)

    def outputs(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Returns the logits, float32 [tokens, 2]; of ELECTRA's head [tokens, 2 + beam_size]."""
        return logits

    def predictions(
        self,
        outputs: Sequence[np.ndarray],
        features: QuestionFeatures,
        questions: Sequence[Question],
    ) -> list[answers.Answers]:
        """Returns the best answers of each question; `outputs` are the logits of each window."""
        seen: list[list[answers.Window]] = [[] for _ in questions]
        for logits, offsets, own, number in zip(
            outputs, features.offsets, features.own, features.example, strict=True
        ):
            seen[number].append(answers.Window(logits, offsets, own))
        return [
            answers.best_answers(question.context, own, self.rules)
            for question, own in zip(questions, seen, strict=True)
        ]

    def calibrate(
        self, examples: Sequence[Question], predicted: Sequence[answers.Answers]
    ) -> float | None:
        """Returns the null odds above which a question has no answer; None if all have one."""
        return answers.null_threshold(examples, predicted)

    def calibrated(
        self, predicted: Sequence[answers.Answers], calibration: float | None
    ) -> list[answers.Answers]:
        """Returns the answers, without texts where the null odds are above `calibration`."""
        return answers.with_threshold(predicted, calibration)

    @classmethod
    def one_answer(cls, score: Score, dev: Sequence, test: Sequence) -> tuple[str, Scores]:
        """Returns "no answer" and its scores on the test set."""
        return "no answer", score(test, [answers.Answers((), (), 0.0)] * len(test))

    @classmethod
    def content(cls, example: Question) -> tuple[list[str], list[str]]:
        """Returns the question, and its accepted answers, sorted."""
        return [example.question], sorted(example.answers)

    @classmethod
    def describe(cls, examples: Sequence[Question], predicted: Sequence[answers.Answers]) -> str:
        """Returns "N questions, M with an answer, P predicted to have one"."""
        true = sum(bool(question.answers) for question in examples)
        found = sum(bool(own.best) for own in predicted)
        count = f"{len(examples):,}"
        return f"{count} questions, {true:,} with an answer, {found:,} predicted to have one"

    @classmethod
    def write_predictions(
        cls, folder: str, split: str, examples: Sequence, predicted: Sequence, entity_type: str
    ) -> None:
        """Writes what the official scripts read, and `SPLIT_answers.jsonl` with what is true."""
        predictions.write_answers(folder, split, examples, predicted)

    @classmethod
    def predictions_file(cls, split: str) -> str:
        """Returns "SPLIT_answers.jsonl"."""
        return f"{split}_answers.jsonl"

    @classmethod
    def read_predictions(cls, path: str) -> tuple[list[Question], list[answers.Answers]]:
        """Reads questions and predicted answers; raises a TaskFileError if it cannot."""
        return predictions.read_answers(path)

    def continues_head(self, before: dict[str, Any]) -> bool:
        """Returns True if the head before is of answers, too, and of the same form.

        One head is for all answers: BioASQ's begin with SQuAD's (BioBERT, BioM-Transformers).
        """
        if before.get("trained_on", {}).get("task_type") != self.name:
            return False
        head = before[self.name]["head"]
        if head != self.settings.head:
            print(f"The checkpoint has {self.name}.head {head}: the head starts anew.")
        return head == self.settings.head

    @classmethod
    def read_hugging_face(
        cls, folder: str, labels: Sequence[str]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns no labels, and "pairs" as False; and no settings."""
        return {"labels": [], "pairs": False}, {}

    @classmethod
    def calibration_in(cls, said: dict[str, Any], folder: str) -> float | None:
        """Returns `null_threshold`, by default 0.0, that of BERT's `run_squad.py`; or None.

        There is no answer where that scores higher than the best one. Raises a UserError if the
        file has neither a number nor null.
        """
        threshold = said.get(cls.calibration_name, 0.0)
        if threshold is not None and type(threshold) not in (int, float):
            raise UserError(
                f"{folder}/config.json has null_threshold = {json.dumps(threshold)}: it must be a "
                "number, or null."
            )
        return threshold
