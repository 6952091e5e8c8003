"""Makes the optimizer of a pretraining run from its settings; `pretrainer` asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfbio.base.errors import UserError
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.training import optimization

if TYPE_CHECKING:
    from tfbio.training.lamb import Lamb


def make_optimizer(config: PretrainingConfig) -> optimization.Adam | Lamb:
    """Makes the optimizer of a pretraining run, with its learning rate.

    Call it in the scope of the strategy.

    Args:
      config: all settings.

    Returns:
      An `Adam` or a `Lamb`.

    Raises:
      UserError: the optimizer needs a package that is not installed.
    """
    alone = config.generator_warmup_steps
    rate = optimization.SCHEDULES[config.schedule](
        config.learning_rate, config.num_train_steps - alone, config.num_warmup_steps
    )
    is_adam = config.optimizer == "adamw"
    make = optimization.Adam if is_adam else _import_lamb()
    return make(
        optimization.GeneratorWarmup(alone, rate) if alone else rate,
        betas=(config.adam_beta_1, config.adam_beta_2),
        epsilon=config.adam_epsilon,
        weight_decay_rate=config.weight_decay_rate,
        bias_correction=config.adam_bias_correction if is_adam else config.lamb_bias_correction,
        decay_all=config.decay_all,
    )


def _import_lamb() -> type[Lamb]:
    """Imports LAMB, which few runs use, and whose package is an extra."""
    try:
        from tfbio.training.lamb import Lamb
    except ImportError as error:
        raise UserError(
            f"optimizer = lamb needs TensorFlow Model Garden ({error}): "
            "`pip install 'tfbio[model-garden]'` installs it."
        ) from error
    return Lamb
