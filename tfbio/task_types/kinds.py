"""The kinds of tasks: what fine-tuning learns, with the settings that belong to each."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tfbio.base.config import ConfigError
from tfbio.task_types import answers
from tfbio.task_types.classification import Classification, MultiLabel, Regression
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.spans import Spans
from tfbio.task_types.tagging import Tagging

Kind = Tagging | Classification | Regression | MultiLabel | Spans

# The kind that a setting is of.
SETTINGS = {
    "tagging_head": "tagging",
    "tagging_scheme": "tagging",
    "label_all_tokens": "tagging",
    "tagging_segment": "tagging",
    "tagging_dropout": "tagging",
    "tagging_early_cut": "tagging",
    "entity_markers": "classification",
    "pooling": "classification",
    "text_head": "classification",
    "absent_outputs": "multilabel",
    "span_head": "spans",
    "beam_size": "spans",
    "max_query_length": "spans",
    "doc_stride": "spans",
    "n_best_size": "spans",
    "max_answer_length": "spans",
    "score_scale": "regression",
}


def make(name: str, labels: Sequence[str], config: FinetuningConfig) -> Kind:
    """What is learnt.

    Args:
      name: "tagging", "classification", "regression", "multilabel" or "spans".
      labels: all labels, in the order of the model's outputs.
      config: all settings.

    Raises:
      ConfigError: a setting is for another kind.
    """
    for setting, kind in SETTINGS.items():
        value, default = getattr(config, setting), getattr(FinetuningConfig, setting)
        of_any_text = name in ("regression", "multilabel") and (
            value == "mean" or setting == "text_head"
        )
        if name != kind and value != default and not of_any_text:
            raise ConfigError(
                f"{setting} {json.dumps(value)} is for tasks of {kind}, and this is one of {name}: "
                f"leave it at {json.dumps(default)}."
            )
    if name == "tagging":
        return Tagging(
            labels,
            config.tagging_scheme,
            config.label_all_tokens,
            config.tagging_head,
            config.tagging_segment,
            config.tagging_early_cut,
        )
    if name == "classification":
        return Classification(labels, config.pooling, config.entity_markers)
    if name == "regression":
        return Regression(labels, config.score_scale)
    if name == "multilabel":
        return MultiLabel(labels, config.absent_outputs)
    return Spans(
        labels,
        answers.Rules(
            config.n_best_size,
            config.max_answer_length,
            config.beam_size if config.span_head == "electra" else 0,
        ),
        config.max_query_length,
        config.doc_stride,
    )
