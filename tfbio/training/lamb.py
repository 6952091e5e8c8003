"""LAMB, the optimizer for large batches, with TensorFlow Model Garden's code.

Imported for `optimizer = lamb` alone: the package tf-models-official is an extra, `model-garden`.
"""

import tensorflow as tf
import tf_keras as keras
from official.modeling.optimization import lamb

from tfbio.training.optimization import NOT_DECAYED


class Lamb(lamb.LAMB):
    """The optimizer LAMB for Keras: scales Adam's updates to the norm of each variable.

    You et al. (2020), "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes",
    algorithm 2: with m and v divided by 1 - beta^t,
    `update = m / (sqrt(v) + epsilon) + weight_decay_rate * parameter`, and
    `parameter -= learning_rate * norm(parameter) / norm(update) * update`. Biases and LayerNorms
    are not scaled, and by default do not decay, as in ALBERT's code (optimization.py and
    lamb_optimizer.py of github.com/google-research/albert). That code takes m and v as they are,
    without `bias_correction`.

    Args:
      learning_rate: the rate of each step, a number or a schedule.
      betas: the shares of m and of v that each step keeps, beta_1 and beta_2.
      epsilon: added to sqrt(v).
      weight_decay_rate: the share of a parameter that is added to its update.
      bias_correction: True to divide m and v by 1 - beta^t. Without it the update of step t before
        the decay is (1 - beta_1^t) / sqrt(1 - beta_2^t) times as large, 3.2 at step 1 with 0.9 and
        0.999: a bias or a LayerNorm moves so much farther, while the scale of all others takes it
        out again, but for the decay.
      decay_all: True if LayerNorms and biases decay, too.

    Attributes:
      applies: bool []. Where it is false, an update changes nothing, not even m and v; see
        `gradients.apply_clipped`.
    """

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-6,
        weight_decay_rate: float = 0.0,
        bias_correction: bool = True,
        decay_all: bool = False,
    ):
        super().__init__(
            learning_rate,
            *betas,
            epsilon,
            weight_decay_rate,
            exclude_from_weight_decay=None if decay_all else [NOT_DECAYED.pattern],
            exclude_from_layer_adaptation=[NOT_DECAYED.pattern],
        )
        self._bias_correction = bias_correction
        self.applies = tf.constant(True)

    def _prepare_local(
        self, var_device: str, var_dtype: tf.DType, apply_state: dict[tuple, dict[str, tf.Tensor]]
    ) -> None:
        super()._prepare_local(var_device, var_dtype, apply_state)
        state = apply_state[var_device, var_dtype]
        if not self._bias_correction:
            # Model Garden divides by 1 minus these.
            state["beta_1_power"] = state["beta_2_power"] = tf.constant(0.0, var_dtype)
        unchanging = {
            **{"lr_t": 0.0, "beta_1_t": 1.0, "beta_2_t": 1.0},
            **{"one_minus_beta_1_t": 0.0, "one_minus_beta_2_t": 0.0},
        }
        for name, value in unchanging.items():
            state[name] = tf.where(self.applies, state[name], value)

    def _resource_apply_dense(
        self, grad: tf.Tensor, var: tf.Variable, apply_state: dict | None = None
    ) -> tf.Operation:
        grad = tf.math.multiply_no_nan(grad, tf.cast(self.applies, grad.dtype))
        return super()._resource_apply_dense(grad, var, apply_state)
