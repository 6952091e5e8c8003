"""Settings of fine-tuning and of its task types: mistakes that are named."""

import pytest

from tfbio.base.config import ConfigError, load
from tfbio.task_types.finetuning_config import FinetuningConfig


@pytest.mark.parametrize(
    "changes, words",
    [
        (["schedule=cosine"], "schedule must be linear, triangular or slanted_"),
        (["eval_every_steps=-1"], "eval_every_steps must be at least 0, not -1"),
        (["early_stopping_patience=2"], "it goes with eval_every_steps"),
        (
            ["question_answering.head=roberta"],
            'question_answering.head must be bert, mlp or electra, not "roberta"',
        ),
        (["question_answering.beam_size=5"], "beam_size goes with question_answering.head = ele"),
        (["question_answering.n_best_size=0"], "n_best_size must be at least 1, not 0"),
        (["question_answering.doc_stride=-1"], "doc_stride must be at least 0, not -1"),
        (
            ["regression.text_head=relu"],
            'regression.text_head must be linear, tanh, gelu, mlp or lstm, not "relu"',
        ),
        (["regression.pooling=mention"], "regression.pooling must be first or mean, not"),
        (
            ["multilabel.text_head=tanh", "multilabel.pooling=mean"],
            "multilabel.text_head tanh .*: it goes with pooling first, not mean",
        ),
        (["classification.mlp_layers=2"], "classification.mlp_layers goes with .*text_head = mlp"),
        (["tagging.mlp_size=64"], "tagging.mlp_size goes with tagging.head = mlp"),
        (["question_answering.mlp_layers=2"], "mlp_layers goes with question_answering.head = mlp"),
        (["regression.mlp_size=64"], "regression.mlp_size goes with regression.text_head = mlp"),
        (["multilabel.pooling=mention_mean"], "multilabel.pooling must be first or mean, not"),
        (["tagging.schem=IO"], "unknown setting 'tagging.schem'; the nearest is 'tagging.scheme'"),
        (["scheme=IO"], "unknown setting 'scheme'; the nearest is 'tagging.scheme'"),
        (["tagging_scheme=IO"], "unknown setting 'tagging_scheme'; .* is 'tagging.scheme'"),
        (["tagging=IO"], 'tagging is a group of settings, not "IO"'),
    ],
)
def test_a_mistake_in_how_to_train_is_named(changes, words):
    with pytest.raises(ConfigError, match=words):
        load(FinetuningConfig, "", changes)
