"""Compares the logits, answers and scores of question answering with those that were recorded."""

from __future__ import annotations

import re

import numpy as np
import tensorflow as tf
from tokenizers import normalizers, pre_tokenizers

from scripts.parity_differences import Largest
from scripts.parity_recording import Recorded, of_windows, tensors
from tfbio.formats.task_examples import Question
from tfbio.task_types import answer_metrics, answers, null_threshold
from tfbio.task_types.features import Features

# Logits below this are those of masked tokens, where no answer can be.
MASKED = -500.0


def compare_outputs(
    recorded: Recorded, largest: Largest, when: str, features: Features, chosen: np.ndarray
) -> None:
    """Compares logits and, for the development set, the answers and their null odds.

    The limit of logits and odds is 1e-4, since those of masked tokens are rounded at 1,000.

    Args:
      recorded: the recording.
      largest: gets the differences.
      when: the time in the recording: "step0", or "eval0" and the like.
      features: windows.
      chosen: int64 [windows], the numbers of the windows to compare.
    """
    part = recorded.part(features, chosen)
    batch = tensors(part)
    model, in_training = recorded.finetuner.model, when == "step0"
    outputs = model(batch).numpy()
    trained = model(batch, seed=tf.constant([0, 0])) if in_training else None
    rows = recorded.first_places() if in_training else chosen
    for number, (window, row) in enumerate(zip(chosen, rows, strict=True)):
        first, length = part.arrays["first"][number], features.lengths[window]
        own = outputs[first : first + length]
        where = f"{when}, row {row}"

        def add(name: str, ours: np.ndarray, row: int = row, where: str = where) -> None:
            expected = recorded[f"{when}/{name}"][row]
            error = np.abs(ours - expected[: ours.size] if ours.ndim else ours - expected)
            largest.add("logits", error.max(), 1e-4, f"{where}: {name}")

        add("start_logits", own[:, 0])
        add("answerable_logit", own[0, 1])
        if trained is not None:
            add("end_logits", trained.end.numpy()[first : first + length])
            continue
        errors = _beam_errors(recorded, when, row, own)
        largest.add("logits", max(errors, default=0.0), 1e-4, f"{where}: beam")
    if not in_training:
        _compare_answers(recorded, largest, when)


def _beam_errors(recorded: Recorded, when: str, row: int, outputs: np.ndarray) -> list[float]:
    """Returns the differences of the beam's scores, except at masked tokens.

    A place that is recorded among the best must have the recorded score here, and so must the place
    at its rank here: places with equal scores may be in another order.

    Args:
      recorded: the recording.
      when: the time in the recording, such as "eval0".
      row: the row of the recorded arrays.
      outputs: float32 [tokens, 2 + beam_size], see `SpanHead`.
    """
    starts, ends = (
        (recorded[f"{when}/{side}_top_index"][row], recorded[f"{when}/{side}_top_log_probs"][row])
        for side in ("start", "end")
    )
    own = outputs[:, 0] - tf.reduce_logsumexp(outputs[:, 0]).numpy()
    ranked, errors = np.argsort(-own, kind="stable"), []
    for number, (place, score) in enumerate(zip(*starts, strict=True)):
        if score < MASKED:
            continue
        errors += [abs(own[place] - score), abs(own[ranked[number]] - score)]
        followed = np.flatnonzero(ranked[: len(starts[0])] == place)
        if not followed.size:  # an equal one was followed, or the score differs
            continue
        column = outputs[:, 2 + followed[0]]
        best = -np.sort(-column)
        for rank, (end, value) in enumerate(zip(ends[0][number], ends[1][number], strict=True)):
            if value > MASKED:
                errors += [abs(column[end] - value), abs(best[rank] - value)]
    return errors


def _compare_answers(recorded: Recorded, largest: Largest, when: str) -> None:
    """Compares the answers to the development set's questions, and their null odds."""
    written = recorded.written(when)
    for question, own in zip(recorded.examples, _predicted(recorded), strict=True):
        error = abs(own.null_odds - written["null_odds"][question.id])
        largest.add("null odds", error, 1e-4, f"{when}: {question.id}")
        theirs = _as_they_write(recorded, question, own)
        wrong = written["predictions"][question.id] not in theirs
        largest.add("predictions", float(wrong), 0, f"{when}: {question.id}")


def _as_they_write(recorded: Recorded, question: Question, predicted: answers.Answers) -> set[str]:
    """Returns the texts that the authors' scorer may write: the best answer, or an equal one."""
    shares = zip(predicted.texts, predicted.probabilities, strict=True)
    best = [text for text, share in shares if share > predicted.probabilities[0] - 1e-5]
    return {x for text in best for x in _whole_words(recorded, question, text)}


def _whole_words(recorded: Recorded, question: Question, text: str) -> set[str]:
    """Returns the texts that the authors' scorer writes for an answer, one for each occurrence.

    The scorer looks for the answer's tokens in the tokens of its words, and writes the whole words
    where it does not find the tokens, as with [UNK]
    (`finetune/qa/qa_metrics.py:get_final_text`).
    """
    (encoded,), context = recorded.tokenizer.encode([question.context]), question.context
    lower_case = recorded.own["all_settings"]["do_lower_case"]
    normalizer = normalizers.BertNormalizer(lowercase=lower_case)
    texts = set()
    for match in re.finditer(f"(?={re.escape(text)})", context):
        start, end = match.start(), match.start() + len(text)
        spans = zip(encoded.tokens, encoded.offsets, strict=True)
        tokens = " ".join(token for token, (a, b) in spans if a < end and b > start)
        tokens = tokens.replace(" ##", "").replace("##", "")
        words = (m for m in re.finditer(r"\S+", context) if m.start() < end and m.end() > start)
        whole = " ".join(word[0] for word in words)
        parts = pre_tokenizers.BertPreTokenizer().pre_tokenize_str(normalizer.normalize_str(whole))
        split = " ".join(part for part, _ in parts)
        # The scorer takes the characters of both without blanks to be the same.
        places, split_places = ([i for i, x in enumerate(y) if x != " "] for y in (whole, split))
        first = split.find(tokens)
        if first >= 0 and len(places) == len(split_places):
            last = split_places.index(first + len(tokens) - 1)
            whole = whole[places[split_places.index(first)] : places[last] + 1]
        texts.add(whole)
    return texts


def _predicted(recorded: Recorded) -> list[answers.Answers]:
    """Answers the questions of the development set with the present weights."""
    features = recorded.dev
    part = recorded.part(features, np.arange(len(features.input_ids)))
    batch = tensors(part)
    outputs = of_windows(recorded.finetuner.model(batch).numpy(), part, features)
    return recorded.task_type.predictions(outputs, features, recorded.examples)


def scores(recorded: Recorded, when: str) -> dict[str, float]:
    """Returns SQuAD's scores at the recording's threshold and at the best one, in percent.

    Scored are the texts that the authors' scorer writes, which may be longer than the answers.

    Args:
      recorded: the recording.
      when: the time in the recording, such as "eval0".

    Returns:
      The scores, counts and thresholds by their recorded names.
    """
    questions, theirs = recorded.examples, recorded.written(when)["predictions"]
    predicted = [
        own._replace(texts=(theirs[question.id],), probabilities=(1.0,))
        if theirs[question.id] in _as_they_write(recorded, question, own)
        else own
        for question, own in zip(questions, _predicted(recorded), strict=True)
    ]
    gold = [question.answers for question in questions]

    def at_threshold(threshold: float | None) -> dict[str, float]:
        chosen = null_threshold.with_threshold(predicted, threshold)
        return answer_metrics.squad_scores(gold, [own.best for own in chosen])

    given = at_threshold(recorded.own["all_settings"]["qa_na_threshold"])
    figures = {"f1": "f1", "exact": "exact_match"}
    own = {name: 100.0 * given[figure] for name, figure in figures.items()}
    own["total"] = len(questions)
    for prefix, group, count in (
        ("HasAns", "has_answer", sum(map(bool, gold))),
        ("NoAns", "no_answer", len(gold) - sum(map(bool, gold))),
    ):
        own[f"{prefix}_total"] = count
        for name, figure in figures.items():
            # Without questions of the other group, the score of all is this group's.
            value = given.get(f"{group}_{figure}", given[figure])
            own[f"{prefix}_{name}"] = 100.0 * value
    for name, figure in figures.items():
        best = null_threshold.null_threshold(questions, predicted, figure)
        own[f"best_{name}"] = 100.0 * at_threshold(best)[figure]
        # The authors' scorer writes 0 where giving no answer at all is best.
        odds = [answer.null_odds for answer in predicted]
        own[f"best_{name}_thresh"] = 0.0 if best is None or best < min(odds) else best
    return own
