"""Settings of adversarial pretraining, a group of those of pretraining.

Sources named `alum/` are files of the authors' code, github.com/namisan/mt-dnn, branch v0.2.
"""

import dataclasses

from tfbio.base.config import BaseSettings, setting


@dataclasses.dataclass(frozen=True)
class AdversarialSettings(BaseSettings):
    """The settings of adversarial pretraining by ALUM (Liu et al., 2020); see `adversarial`.

    Attributes:
      group: "adversarial.", the start of the names of the settings.
      weight: the weight of the adversarial loss, ALUM's alpha; 0: no adversarial pretraining.
      noise_deviation: the standard deviation of the noise, ALUM's sigma.
      step_size: the size of the step along the gradient, ALUM's eta.
      epsilon: the number added to the divisor of a perturbation.

    Raises:
      ConfigError: a value is out of its range.
    """

    group = "adversarial."

    weight: float = setting(
        0.0,
        "With mlm: above 0, the model learns by ALUM (Liu et al., 2020) besides: to predict the "
        "same words where its embeddings are perturbed. This is the weight (alpha) of that loss "
        "beside the words'. ALUM's pretraining: 10 (alum/alum_train.sh, --adv_alpha). 0: off.",
    )
    noise_deviation: float = setting(
        1e-5,
        "Standard deviation (sigma) of the normal noise that a perturbation starts as "
        "(alum/adv_masked_lm_task.py, --noise_var).",
        above=0,
    )
    step_size: float = setting(
        1e-3,
        "Size (eta) of its step along the gradient (alum/adv_masked_lm_task.py, --adv_step_size). "
        "0: no step, the perturbation is random.",
    )
    epsilon: float = setting(
        1e-6,
        "Added to the divisor that scales the perturbation of each token to a largest number of 1 "
        "(alum/adv_masked_lm_task.py, --noise_gamma).",
        above=0,
    )
