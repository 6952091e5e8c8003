"""LAMB, the optimizer for large batches, with TensorFlow Model Garden's code.

Imported for `optimizer = lamb` alone: the package tf-models-official is an extra, `model-garden`.
"""

import re

import tensorflow as tf
import tf_keras as keras
from official.modeling.optimization import lamb

from tfbio.training.optimization import NOT_DECAYED

# The kernel [h, 3 h] of query, key and value, which are three variables in ALBERT's code.
_THREE_KERNELS = re.compile(r"(^|/)query_key_value/kernel")


class Lamb(lamb.LAMB):
    """The optimizer LAMB for Keras: scales Adam's updates to the norm of each variable.

    You et al. (2020), "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes",
    algorithm 2: with m and v divided by 1 - beta^t,
    `update = m / (sqrt(v) + epsilon) + weight_decay_rate * parameter`, and
    `parameter -= learning_rate * norm(parameter) / norm(update) * update`. Biases and LayerNorms
    are not scaled, and by default do not decay, as in ALBERT's code (optimization.py and
    lamb_optimizer.py of github.com/google-research/albert). That code takes m and v as they are,
    without `bias_correction`. The kernels of query, key and value, which share a variable here, are
    scaled each for itself, as there.

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
      gradient_scale: float32 [], what gradients are multiplied by; 0 makes all of them 0, also
        those that are not finite.
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
        self.applies, self.gradient_scale = tf.constant(True), tf.constant(1.0)

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
        grad = tf.math.multiply_no_nan(grad, tf.cast(self.gradient_scale, grad.dtype))
        state = (apply_state or {}).get((var.device, var.dtype.base_dtype))
        state = state or self._fallback_apply_state(var.device, var.dtype.base_dtype)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        m_t = m.assign(m * state["beta_1_t"] + grad * state["one_minus_beta_1_t"])
        v_t = v.assign(v * state["beta_2_t"] + tf.square(grad) * state["one_minus_beta_2_t"])
        v_root = tf.sqrt(v_t / (1.0 - state["beta_2_power"]))
        update = m_t / (1.0 - state["beta_1_power"]) / (v_root + state["epsilon"])
        name = self._get_variable_name(var.name)
        if self._do_use_weight_decay(name):
            update += state["weight_decay_rate"] * var
        if self._do_layer_adaptation(name):
            update *= _scale(tf.convert_to_tensor(var), update, name)
        return var.assign_sub(state["lr_t"] * update)


def _scale(var: tf.Tensor, update: tf.Tensor, name: str) -> tf.Tensor:
    """Returns norm(var) / norm(update), or 1 where one of them is 0.

    Args:
      var, update: any float dtype, of one shape.
      name: the variable's.

    Returns:
      [] in the same dtype; for query, key and value [3 h], for each column its kernel's.
    """
    parts = 3 if _THREE_KERNELS.search(name) else 1
    shape = [-1, parts, var.shape[-1] // parts]
    of_var, of_update = (tf.norm(tf.reshape(x, shape), axis=[0, 2]) for x in (var, update))
    scale = tf.where((of_var > 0) & (of_update > 0), of_var / of_update, 1.0)
    return tf.repeat(scale, shape[-1]) if parts > 1 else scale[0]
