"""Gives runs that take the same steps the same graphs, which one of them traces.

Tracing a step takes seconds of a core, and running it milliseconds. So a test of what a run does
beside its steps, of its files, its messages or the place where it continues, takes the pretrainer
or the finetuner of a run before it that has the same graphs. Their variables have their first
values again, so a run that does not restore what it should starts anew.

Tests of the steps themselves, and of commands in processes of their own, trace them.
"""

import dataclasses

from tfbio.objectives.pretrainer import Pretrainer
from tfbio.objectives.pretraining_run import PretrainingRun
from tfbio.runs.finetuner import Finetuner
from tfbio.task_types.common_settings import FinetuningRun

# Settings that the loop around the steps reads, and no graph.
_OF_PRETRAINING_LOOP = (
    "steps_per_loop",
    "save_checkpoints_steps",
    "keep_checkpoint_max",
    "stop_at_step",
    "keep_checkpoints_at",
    "max_skipped_steps",
    "eval_every_steps",
    "num_eval_batches",
)
_OF_TRIALS = ("seed", "num_trials", "eval_every_steps", "early_stopping_patience")
_OF_DRAWS = ("max_train_examples", "max_dev_examples", "max_test_examples", "num_train_epochs")


def pretrainers():
    """Returns a function that stands in for `Pretrainer` in `tfbio.runs.pretraining`.

    All its calls are to have the same vocabulary.
    """
    made = {}

    def make(config, tokenizer, strategy, teacher=None):
        if teacher is not None:  # its weights stand in the graph
            return Pretrainer(config, tokenizer, strategy, teacher)
        run = _with_defaults(config.run, PretrainingRun(), _OF_PRETRAINING_LOOP)
        key = repr(dataclasses.replace(config, run=run)), id(strategy)
        if key not in made:
            pretrainer = Pretrainer(config, tokenizer, strategy)
            made[key] = pretrainer, _values(_variables(pretrainer)), tokenizer.begins_word
        pretrainer, first, begins_word = made[key]
        assert (tokenizer.begins_word == begins_word).all()
        _assign(_variables(pretrainer), first)
        pretrainer.config = config
        pretrainer.train_dataset = pretrainer.eval_dataset = None
        return pretrainer

    return make


def _variables(pretrainer):
    """Lists all that a pretrainer's steps change."""
    metrics = [*pretrainer.logged, *pretrainer.eval_metrics.all]
    return [
        *pretrainer.model.variables,
        *pretrainer.optimizer.variables(),
        *(variable for metric in metrics for variable in metric.variables),
        pretrainer.skipped_steps,
        pretrainer.last_skipped_step,
        pretrainer.eval_batches,
    ]


def finetuners():
    """Returns a function that stands in for `Finetuner` in `tfbio.runs.mesh_finetuner`."""
    made = {}

    def make(config, encoder_config, task_type, pad_id, num_steps, strategy):
        run = _with_defaults(config.run, FinetuningRun(), ("save_checkpoints_steps",))
        graphs = _with_defaults(config, type(config)(), (*_OF_TRIALS, *_OF_DRAWS))
        graphs = dataclasses.replace(graphs, run=run)
        key = repr((graphs, encoder_config, task_type.labels, pad_id, num_steps)), id(strategy)
        if key not in made:
            arguments = (config, encoder_config, task_type, pad_id, num_steps, strategy)
            finetuner = Finetuner(*arguments)
            variables = [*finetuner.model.variables, *finetuner.optimizer.variables()]
            made[key] = finetuner, variables, _values(variables)
        finetuner, variables, first = made[key]
        _assign(variables, first)
        finetuner.config, finetuner.task_type = config, task_type
        return finetuner

    return make


def _with_defaults(settings, defaults, names):
    """Returns settings some of which have their defaults."""
    return dataclasses.replace(settings, **{name: getattr(defaults, name) for name in names})


def _values(variables):
    """Returns the values of variables, as arrays."""
    return [variable.numpy() for variable in variables]


def _assign(variables, values):
    """Gives variables some values."""
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
