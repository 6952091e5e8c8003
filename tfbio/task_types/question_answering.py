"""Answers that are spans of a context: SQuAD, and BioASQ's factoid questions.

Each token of [CLS] question [SEP] context [SEP] has a logit for the answer's start and one for its
end (Devlin et al., 2019, section 4.2). Where a window of a long context does not hold the answer,
[CLS] is its start and end, as in BERT's `run_squad.py`. ELECTRA's own head is in `span_head.py`.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tfbio.base.config import BaseSettings, ConfigError, require, setting
from tfbio.base.errors import UserError
from tfbio.base.lazy import tensorflow as tf
from tfbio.formats import squad
from tfbio.formats.splits import hold_out
from tfbio.formats.task_examples import Question
from tfbio.models.head_config import HeadConfig
from tfbio.task_types import answers, null_threshold, prediction_files, question_windows
from tfbio.task_types.answer_metrics import score_answers
from tfbio.task_types.common_settings import CommonSettings
from tfbio.task_types.features import Features
from tfbio.task_types.metrics import Scores
from tfbio.task_types.mlp_settings import check_mlp
from tfbio.task_types.own_task import OwnTask
from tfbio.task_types.question_windows import QuestionFeatures
from tfbio.task_types.serving.served_questions import ServedQuestions
from tfbio.task_types.task import SQUAD_SETTINGS
from tfbio.task_types.task_type import Score, TaskType
from tfbio.text.tokenization import Tokenizer

if TYPE_CHECKING:
    from tfbio.models.span_head import TrainingLogits

# `max_query_length` of `run_squad.py`, in tokens.
_MAX_QUESTION = 64
# Of the loss for "no answer", beside the mean of those of start and end
# (`answerable_weight` of configure_finetuning.py in google-research/electra).
NO_ANSWER_WEIGHT = 0.5


class QuestionAnswering(TaskType):
    """The question_answering task type, which finds an answer's start and end in a context.

    Args:
      labels: ignored; there are none.
      settings: a `QuestionAnswering.Settings`; None for its defaults.

    Attributes:
      beam_size: the setting with ELECTRA's head, else 0.
      rules: `answers.Rules`, the limits on answers. For the other attributes see `TaskType`.
    """

    name = "question_answering"
    of_tokens = True
    calibration_name = "null_threshold"
    new_text = "questions"
    served = ServedQuestions
    hugging_face_class = "ForQuestionAnswering"
    hugging_face_head = "qa_outputs"
    output_names = ("start_logits", "end_logits")
    # The null threshold was learnt with them.
    kept_settings = ("max_query_length", "doc_stride", "n_best_size", "max_answer_length")
    own_tasks = (
        OwnTask(
            "qa",
            lambda path, labels: squad.read(path, known=True),
            lambda labels: score_answers,
            settings=SQUAD_SETTINGS,
            hold_out=hold_out,
        ),
    )
    num_outputs = 2

    @dataclasses.dataclass(frozen=True)
    class Settings(BaseSettings):
        """The settings of question answering; a ConfigError if one is out of its limits.

        Attributes:
          head: "bert", "mlp" or "electra", whose ends depend on the start.
          beam_size: the starts that "electra" follows, and the ends of each.
          max_query_length: the most tokens of a question; 0: 64, or half a window if less.
          doc_stride: how many tokens apart windows begin; 0: 128, or half a window if less.
          n_best_size, max_answer_length: the most answers of a question, and tokens of an answer.
          mlp_layers, mlp_size: the layers of "mlp", and the units of each; 0 for as many as the
            encoder has.
        """

        group = "question_answering."
        added = {"mlp_layers": 1, "mlp_size": 0}

        head: str = setting(
            "bert",
            "bert: each token has a score as the start of the answer and one as its end; mlp: the "
            "same with layers with ReLU below; electra: the head of the original ELECTRA code, "
            "whose ends depend on the start (see tfbio/models/span_head.py).",
            choices=("bert", "mlp", "electra"),
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
        mlp_layers: int = setting(1, "With head mlp: its layers below the last one.", at_least=1)
        mlp_size: int = setting(
            0, "With head mlp: the units of each layer; 0: as many as the encoder has."
        )

        def check_together(self) -> None:
            """Raises a ConfigError if a setting of "electra" or "mlp" has another head."""
            check_mlp(self, "head")
            require(
                self.head == "electra" or self.beam_size == type(self).beam_size,
                "question_answering.beam_size goes with question_answering.head = electra; of the "
                "other heads n_best_size is the number",
            )

    settings: Settings

    def __init__(self, labels: Sequence[str] = (), settings: Settings | None = None):
        super().__init__((), settings)
        own = self.settings
        self.beam_size = own.beam_size if own.head == "electra" else 0
        self.rules = answers.Rules(own.n_best_size, own.max_answer_length, self.beam_size)

    @classmethod
    def from_settings(cls, labels: Sequence[str], config: CommonSettings) -> Self:
        """Makes the type; raises a ConfigError if a setting does not go with the others.

        `max_query_length` must leave a context room, and ELECTRA's head has no dropout.
        """
        made = super().from_settings(labels, config)
        require(
            config.head_dropout_prob == 0 or made.settings.head != "electra",
            "head_dropout_prob is for heads with dropout, and question_answering.head electra has "
            "none: leave it at 0.",
        )
        longest = config.sequence_length - 5
        require(
            made.settings.max_query_length <= longest,
            f"question_answering.max_query_length {made.settings.max_query_length} leaves no room "
            f"for a context in sequence_length {config.sequence_length}: give {longest} or less.",
        )
        return made

    def head_config(self, dropout_prob: float) -> HeadConfig:
        """Returns the shape of the head: two outputs for each token, layer and dropout."""
        return HeadConfig(
            self.num_outputs,
            of_tokens=True,
            dropout_prob=dropout_prob,
            mlp_layers=self.settings.mlp_layers,
            mlp_size=self.settings.mlp_size,
            token_layer="mlp" if self.settings.head == "mlp" else "linear",
            beam_size=self.beam_size,
        )

    def question_room(self, length: int, special: int) -> int:
        """Returns the most tokens of a question, in windows of `length` with `special` tokens."""
        # By default the context has half of a short window at least.
        return self.settings.max_query_length or min(_MAX_QUESTION, (length - special) // 2)

    def features(
        self, questions: Sequence[Question], tokenizer: Tokenizer, length: int
    ) -> QuestionFeatures:
        """Makes each question's windows [CLS] question [SEP] context [SEP], at most `length` long.

        Returns:
          Features with int32 [tokens] of ids and segments for each window, and in `per_window` its
          "targets": int32 [2], the tokens of the answer, or 0 and 0; for ELECTRA's head [3], with 1
          where the question has no answer.

        Raises:
          ConfigError: the head is ELECTRA's, and the encoder has one segment for both texts.
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
            spans = question_windows.windows(
                len(ids), length - before - 1, self.settings.doc_stride
            )
            answer = question_windows.answer_tokens(question, offsets)
            for (first, end), own in zip(
                spans, question_windows.most_context(len(ids), spans), strict=True
            ):
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
        """Computes the question_answering losses: mean cross-entropy of start and end in a window.

        Args:
          logits: float32 [tokens, 2]; or ELECTRA's `span_head.TrainingLogits`, for which
            `NO_ANSWER_WEIGHT` (0.5) times the cross-entropy of "no answer" is added.
          batch: the arrays of `packing.fill`, with `targets`, int32 [windows, 2] or [windows, 3].

        Returns:
          The losses and their weights, 1; float32 [windows] each.
        """
        # Imported late: these need TensorFlow at once.
        from tfbio.models.segments import segment_max
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
        highest = tf.stop_gradient(segment_max(logits, window, number))
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
        """Returns the best answers to each question, from what `outputs` gives for its windows."""
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
        """Calibrates question answering on dev examples, by `null_threshold.null_threshold`.

        Returns the null odds, in logits, above which to give no answer; None if all have one.
        """
        return null_threshold.null_threshold(examples, predicted)

    def calibrated(
        self, predicted: Sequence[answers.Answers], calibration: float | None
    ) -> list[answers.Answers]:
        """Calibrates answers: no texts where null odds exceed `calibration`; None changes none."""
        return null_threshold.with_threshold(predicted, calibration)

    def describe_bias(self, examples: Sequence[Question], features: Features) -> str:
        """Describes the label bias of answers in a line, or returns "" where none is known.

        It is how often the rarest pair of a question and an answer is there, over how often the
        most frequent one is (Shin et al., 2020, Table 8). A question has several contexts.
        """
        pairs = Counter((x.question, answer) for x in examples for answer in set(x.answers))
        if not pairs:
            return ""
        least, most = min(pairs.values()), max(pairs.values())
        return (
            f"label bias: {least / most:.4f} (the rarest question with its answer is there "
            f"{least:,} times, the most frequent one {most:,} times)"
        )

    @classmethod
    def one_answer(cls, score: Score, dev: Sequence, test: Sequence) -> tuple[str, Scores]:
        """Returns "no answer", and its scores on `test`; raises a ScoreError if that is empty."""
        return "no answer", score(test, [answers.Answers((), (), 0.0)] * len(test))

    @classmethod
    def content(cls, example: Question) -> tuple[list[str], list[str]]:
        """Returns [question], and its accepted answers, sorted, to compare test sets."""
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
        """Writes `SPLIT_answers.jsonl` and SQuAD's or BioASQ's files, see `prediction_files`."""
        prediction_files.write_answers(folder, split, examples, predicted)

    @classmethod
    def predictions_file(cls, split: str) -> str:
        """Returns "SPLIT_answers.jsonl", the file that `read_predictions` reads."""
        return f"{split}_answers.jsonl"

    @classmethod
    def read_predictions(cls, path: str) -> tuple[list[Question], list[answers.Answers]]:
        """Reads questions, without contexts, and answers; raises a TaskFileError if it cannot."""
        return prediction_files.read_answers(path)

    def continues_head(self, before: dict[str, Any]) -> bool:
        """Returns True if the head before answered questions, too, and has the same layers.

        One head is for all answers: BioASQ's begin with SQuAD's (BioBERT, BioM-Transformers,
        BioMegatron).
        """
        if before.get("trained_on", {}).get("task_type") != self.name:
            return False
        for name in ("head", "mlp_layers", "mlp_size"):
            value = before[self.name][name]
            if value != getattr(self.settings, name):
                print(f"The checkpoint has {self.name}.{name} {value}: the head starts anew.")
                return False
        return True

    @classmethod
    def read_hugging_face(
        cls, folder: str, labels: Sequence[str]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns {"labels": [], "pairs": False} for `TrainedOn`, and {}: no settings."""
        return {"labels": [], "pairs": False}, {}

    @classmethod
    def calibration_in(cls, said: dict[str, Any], folder: str) -> float | None:
        """Reads question answering's calibration in `said`, a `transformers` model's config.

        It is `null_threshold`, the null odds above which to give no answer. By default it is None,
        always an answer, as in BERT's `run_squad.py` without `version_2_with_negative` and in
        `transformers`' pipeline. Raises a UserError if it is neither a number nor null.
        """
        threshold = said.get(cls.calibration_name)
        if threshold is not None and type(threshold) not in (int, float):
            raise UserError(
                f"{folder}/config.json has null_threshold = {json.dumps(threshold)}: it must be a "
                "number, or null."
            )
        return threshold
