"""The optimizer and the learning rates of ELECTRA's original code, and other learning rates."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfbio.models import target
from tfbio.training import mesh

# The names of parameters that by default do not decay, as in BERT and ELECTRA; all others do.
NOT_DECAYED = re.compile("LayerNorm|bias")


class _Schedule(keras.optimizers.schedules.LearningRateSchedule):
    """Learning rates with a warm-up; a call takes the steps done so far, see the subclasses."""

    def __init__(self, peak: float, num_steps: int, num_warmup_steps: float):
        self.peak, self.num_steps, self.num_warmup_steps = peak, num_steps, num_warmup_steps

    def get_config(self) -> dict:
        """Returns the schedule's `peak`, `num_steps` and `num_warmup_steps` by name, for Keras."""
        return dict(vars(self))


class WarmupLinearDecay(_Schedule):
    """The learning rates of ELECTRA: a linear decay to 0, times a linear warm-up from 0.

    A call takes the steps done so far, int64 [], and returns the next step's rate, float32 [].

    The schedule is that of the original ELECTRA code, and the rate peaks a little below `peak`.
    That code reads the step after it has counted it, so the first update has the rate of step 1,
    not of step 0 (recorded from that code, see tests/tfbio/objectives/test_electra.py).

    Args:
      peak: the highest rate; also an attribute, like the other two.
      num_steps: the steps until the rate is 0.
      num_warmup_steps: the steps of the warm-up.
    """

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """Computes the rate of the step after so many steps; int64 [] -> float32 []."""
        step = tf.cast(step + 1, tf.float32)
        rate = self.peak * tf.maximum(0.0, 1.0 - step / self.num_steps)
        return rate * tf.minimum(1.0, step / max(1, self.num_warmup_steps))


class Triangular(_Schedule):
    """The learning rates of RoBERTa and PubMedBERT: a linear rise to `peak`, a linear fall to 0.

    They reach `peak` at the end of the warm-up, where those of `WarmupLinearDecay` are lower by the
    share of the steps that are done: a tenth, with a warm-up of a tenth (fairseq's
    optim/lr_scheduler/polynomial_decay_schedule.py; Gu et al., 2020, section 6.1). As in
    `WarmupLinearDecay`, the first update has the rate of step 1.

    A call takes the steps done so far, int64 [], and returns the next step's rate, float32 [].

    Args:
      peak: the highest rate; also an attribute, like the other two.
      num_steps: the steps until the rate is 0.
      num_warmup_steps: the steps of the rise.
    """

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """Computes the rate of the step after so many steps; int64 [] -> float32 []."""
        step = tf.cast(step + 1, tf.float32)
        rise = step / max(1, self.num_warmup_steps)
        fall = (self.num_steps - step) / max(1, self.num_steps - self.num_warmup_steps)
        return self.peak * tf.maximum(0.0, tf.minimum(rise, fall))


class GeneratorWarmup(keras.optimizers.schedules.LearningRateSchedule):
    """The learning rates of a run of ELECTRA whose generator learns alone at first.

    While it does, the rate rises like that of `both` to its peak, and stays there. Then `both`
    begins, with its warm-up from 0, as if the run began: for the discriminator it does. Adam's
    averages of its gradients are still 0, which makes the first updates large, and at the peak they
    would undo the training that its weights come from.

    A call takes the steps done so far, int64 [], and returns the next step's rate, float32 [].

    Args:
      num_steps: the steps in which the generator learns alone; also an attribute, like `both`.
      both: the rates of all later steps.
    """

    def __init__(self, num_steps: int, both: WarmupLinearDecay | Triangular):
        self.num_steps, self.both = num_steps, both

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """Computes the rate of the step after so many steps; int64 [] -> float32 []."""
        rise = tf.cast(step + 1, tf.float32) / max(1, self.both.num_warmup_steps)
        alone = self.both.peak * tf.minimum(1.0, rise)
        return tf.where(step < self.num_steps, alone, self.both(step - self.num_steps))

    def get_config(self) -> dict:
        """Returns the schedule's `num_steps` and `both` by name, for Keras."""
        return dict(vars(self))


class SlantedTriangular(_Schedule):
    """The learning rates of ULMFiT: a linear rise from `peak` / 32 to `peak`, then a linear fall.

    Howard & Ruder (2018), section 3.2, equation 3, where `num_warmup_steps` is `cut`, the tenth of
    the steps by `cut_frac` = 0.1. There the fall takes `cut * (1 / cut_frac - 1)` steps, which are
    all that are left, but for rounding. Here it takes exactly those, else a short run would end
    below 0. As in `WarmupLinearDecay`, the first update has the rate of step 1.

    A call takes the steps done so far, int64 [], and returns the next step's rate, float32 [].

    Args:
      peak: the highest rate; also an attribute, like the other two.
      num_steps: all steps.
      num_warmup_steps: the steps of the rise.

    Attributes:
      RATIO: 32, the highest rate over the lowest.
    """

    RATIO = 32  # the highest rate over the lowest

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """Computes the rate of the step after so many steps; int64 [] -> float32 []."""
        step, cut = tf.cast(step + 1, tf.float32), self.num_warmup_steps
        rise = step / max(1, cut)
        fall = 1.0 - (step - cut) / (self.num_steps - cut)
        share = tf.where(step < cut, rise, fall)
        return self.peak * (1.0 + share * (self.RATIO - 1)) / self.RATIO


SCHEDULES = {
    "linear": WarmupLinearDecay,
    "triangular": Triangular,
    "slanted_triangular": SlantedTriangular,
}


def layer_multiplier(depth: int, num_layers: int, decay: float, exponent: str) -> float:
    """Computes the share of the optimizer's learning rate that an encoder's variable gets.

    The head gets all of it. With n layers, the original ELECTRA code (model/optimization.py,
    `_get_layer_lrs`) gives layer i, 0 the lowest, decay^(n+1-i), and the embeddings decay^(n+2).
    BioELECTRA's fork shifts the exponent by one: decay^(n-i) and decay^(n+1).

    Args:
      depth: 0 for the embeddings, 1 to `num_layers` for the layers, from below.
      num_layers: the number of layers in the encoder.
      decay: in (0, 1].
      exponent: "electra" or "bioelectra".

    Returns:
      The factor of the rate, a float in (0, 1].

    Raises:
      KeyError: `exponent` is neither.
    """
    return decay ** (num_layers + {"electra": 2, "bioelectra": 1}[exponent] - depth)


def _rounded_share(beta: float) -> float:
    """Returns the ratio of the kernel's `1 - float32(beta)` to 1 - beta.

    For 0.999 it is 1.3e-5 less than 1, and updates without it 6e-6 too large. BERT's and ELECTRA's
    code subtracts before it rounds.
    """
    return (1.0 - float(np.float32(beta))) / (1.0 - beta)


class Adam(keras.optimizers.legacy.Optimizer):
    """The optimizer Adam for Keras: decoupled weight decay, by default no bias correction.

    It is that of BERT and ELECTRA: m and v start at 0 and are used as they are, and
    `update = m / (sqrt(v) + epsilon) + weight_decay_rate * parameter`. With `bias_correction` m and
    v are first divided by 1 - beta^t (Kingma and Ba, 2015, algorithm 1), as in PyTorch's AdamW;
    step t is then (1 - beta_1^t) / sqrt(1 - beta_2^t) times smaller.

    Args:
      learning_rate: the rate of each step, a number or a schedule.
      betas: the shares of m and of v that each step keeps, beta_1 and beta_2.
      epsilon: added to sqrt(v).
      weight_decay_rate: the share of a parameter that is added to its update; parameters whose
        names have "LayerNorm" or "bias" (`NOT_DECAYED`) do not decay.
      lr_multiplier: returns a variable's share of the learning rate (layer-wise decay).
      bias_correction: True to divide m and v by 1 - beta^t.
      decay_all: True if those parameters decay, too, as in fairseq, with which RoBERTa was trained:
        its optimizer/adam.py has one rate for all.

    Attributes:
      applies: bool []. Where it is false, an update changes nothing, not even m and v; see
        `apply_clipped`.
      gradient_scale: float32 [], what gradients are multiplied by; 0 makes all of them 0, also
        those that are not finite. The arguments but `learning_rate` are attributes, too; the betas
        are `beta_1` and `beta_2`.
    """

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-6,
        weight_decay_rate: float = 0.0,
        lr_multiplier: Callable[[tf.Variable], float] = lambda variable: 1.0,
        bias_correction: bool = False,
        decay_all: bool = False,
    ):
        super().__init__("Adam")
        self._set_hyper("learning_rate", learning_rate)
        (self.beta_1, self.beta_2), self.epsilon = betas, epsilon
        self.weight_decay_rate = weight_decay_rate
        self.lr_multiplier = lr_multiplier
        self.bias_correction, self.decay_all = bias_correction, decay_all
        self.applies, self.gradient_scale = tf.constant(True), tf.constant(1.0)

    def _create_slots(self, var_list: list[tf.Variable]) -> None:
        for variable in var_list:
            self.add_slot(variable, "m")
            self.add_slot(variable, "v")

    def _prepare_local(
        self, var_device: str, var_dtype: tf.DType, apply_state: dict[tuple, dict[str, Any]]
    ) -> None:
        """Adds what all variables of a device have in common: once, not once for each of them."""
        super()._prepare_local(var_device, var_dtype, apply_state)
        if self.bias_correction:
            # The shares of m and v that the kernel takes and its powers are rounded alike.
            step = tf.cast(self.iterations + 1, tf.float32)
            beta_1_power, beta_2_power = self.beta_1**step, self.beta_2**step
            epsilon = self.epsilon
        else:
            # Zero powers switch the kernel's bias correction off. Its m and v are then too large or
            # too small by the rounding of 1 - beta, which the rate and epsilon correct.
            beta_1_power = beta_2_power = tf.constant(0.0)
            epsilon = self.epsilon * np.sqrt(_rounded_share(self.beta_2))
        apply_state[var_device, var_dtype] |= {
            "of_kernel": {
                "beta1_power": beta_1_power,
                "beta2_power": beta_2_power,
                "beta1": tf.where(self.applies, self.beta_1, 1.0),
                "beta2": tf.where(self.applies, self.beta_2, 1.0),
                # The kernel adds it to sqrt(v) before the correction.
                "epsilon": epsilon * tf.sqrt(1.0 - beta_2_power),
            },
            "gradient_scale": tf.cast(self.gradient_scale, var_dtype),
            "rates": {},
        }

    def _rates(self, state: dict[str, Any], multiplier: float) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the decay and the kernel's rate, float32 [] each, of variables with a share."""
        if multiplier not in state["rates"]:
            rate = tf.where(self.applies, state["lr_t"] * multiplier, 0.0)
            decay = rate * self.weight_decay_rate
            if not self.bias_correction:
                rate *= np.sqrt(_rounded_share(self.beta_2)) / _rounded_share(self.beta_1)
            state["rates"][multiplier] = decay, rate
        return state["rates"][multiplier]

    def _resource_apply_dense(
        self, grad: tf.Tensor, var: tf.Variable, apply_state: dict | None = None
    ) -> tf.Operation:
        key = var.device, var.dtype.base_dtype
        apply_state = {} if apply_state is None else apply_state
        # In a TPU's replica context a variable has no device, so nothing is prepared for it.
        if key not in apply_state:
            apply_state[key] = self._fallback_apply_state(*key)
        state = apply_state[key]
        decay, rate = self._rates(state, self.lr_multiplier(var))
        if self.weight_decay_rate and (self.decay_all or not NOT_DECAYED.search(var.name)):
            var.assign_sub(decay * var, use_locking=self._use_locking)
        if target.is_mesh():
            return self._apply_on_mesh(grad, var, state, rate)
        return tf.raw_ops.ResourceApplyAdam(
            var=var.handle,
            m=self.get_slot(var, "m").handle,
            v=self.get_slot(var, "v").handle,
            lr=rate,
            grad=tf.math.multiply_no_nan(grad, state["gradient_scale"]),
            use_locking=self._use_locking,
            **state["of_kernel"],
        )

    def _apply_on_mesh(
        self, grad: tf.Tensor, var: tf.Variable, state: dict[str, Any], rate: tf.Tensor
    ) -> tf.Operation:
        """Does what the kernel does, in operations that DTensor divides over devices."""
        kernel, m, v = state["of_kernel"], self.get_slot(var, "m"), self.get_slot(var, "v")
        # First as its variable, so that DTensor does not divide the backward pass as the averages,
        # which are divided over the devices of the examples, too.
        grad = mesh.divided_as(var, tf.math.multiply_no_nan(grad, state["gradient_scale"]))
        grad = mesh.divided_as(m, grad)
        new_m = kernel["beta1"] * m + (1.0 - kernel["beta1"]) * grad
        new_v = kernel["beta2"] * v + (1.0 - kernel["beta2"]) * tf.square(grad)
        m.assign(new_m)
        v.assign(new_v)
        correction = tf.sqrt(1.0 - kernel["beta2_power"]) / (1.0 - kernel["beta1_power"])
        update = rate * correction * new_m / (tf.sqrt(new_v) + kernel["epsilon"])
        return var.assign_sub(mesh.divided_as(var, update))
