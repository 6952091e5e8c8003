"""Adversarial pretraining: words are predicted the same where the embeddings are perturbed.

ALUM (Liu et al., 2020, "Adversarial Training for Large Neural Language Models"), the arm "+
adversarial" of PubMedBERT (Gu et al., 2020, section 6.4, Table 9), which names no setting of it.
`masked_language_model` adds the loss to its own.

What the paper leaves open is as in the authors' code, `AdvMaskedLmLoss.forward` of
alum/adv_masked_lm.py (github.com/namisan/mt-dnn, branch v0.2, its last version):

- The perturbation is added to the input of the first layer, which is the sum of all embeddings
  after LayerNorm (none with `layer_norm_first`) and dropout (`--prob_n_layer` 0), for all tokens,
  padding too. From there no
  gradient flows back into the embeddings: they learn from it as output weights only.
- The passes share the dropout mask of the embeddings, and each draws those of the layers anew.
  Without dropout the divergence has its minimum, 0, where there is no perturbation, and the
  gradient at the noise is as small as the noise.
- The divergence is of the masked tokens, the ones whose words are scored.
- Noise and step are scaled together, so that the largest number of each token's perturbation is
  almost 1. `epsilon` is no bound: it only avoids a division by 0.
- The gradient is that of a mean, and the loss a sum over the masked tokens, of both directions of
  the divergence. It is divided, like the words' loss, by the number of all masked tokens.

One thing differs. The code takes the mean over the masked tokens that a device has in memory, so
that its step depends on the division of a batch. Here it is the mean over those of an example, as
the code has it with one example at a time.
"""

from collections.abc import Callable

import tensorflow as tf

from tfbio.models import randomness
from tfbio.models.encoder import Perturbation
from tfbio.objectives import accumulation
from tfbio.objectives.accumulation import Part
from tfbio.objectives.adversarial_config import AdversarialSettings
from tfbio.objectives.masking import MaskedBatch

# Numbers that derive the seeds of the perturbation and of the passes' dropout. The first one is
# larger than any number of a part, which `Part.dropout_seed` derives others from.
_NOISE, _FIRST_PASS, _SECOND_PASS = 2**31 - 1, 1, 2


def adversarial_loss(
    forward: Callable[[Perturbation], tf.Tensor],
    logits: tf.Tensor,
    masked: MaskedBatch,
    size: int,
    settings: AdversarialSettings,
    part: Part,
    seed: tf.Tensor,
) -> tf.Tensor:
    """Computes the adversarial loss of some examples: their share of a mean over masked tokens.

    It is KL(clean || perturbed), which the perturbed pass learns from, and KL(perturbed || clean),
    which the clean one learns from. Call it in a replica's context and in a graph.

    Args:
      forward: computes the logits, float32 [B, N, V], of a pass with a perturbation.
      logits: float32 [B, N, V], those of the clean pass.
      masked: the batch with masked tokens; its `weights`, float32 [B, N], are read, and the shape
        of its `input_ids`, int32 [B, L].
      size: the number of numbers in a token's embedding.
      settings: the settings of the perturbation.
      part: which examples these are.
      seed: int32 [2], the same for all parts and replicas; keys noise and dropout.

    Returns:
      float32 [], not yet weighted.
    """
    dropout_seed = part.dropout_seed(seed)
    first, second = (
        randomness.fold_in(dropout_seed, number) for number in (_FIRST_PASS, _SECOND_PASS)
    )
    shape = [*masked.input_ids.shape, size]
    noise = part.normal(shape, randomness.fold_in(seed, _NOISE)) * settings.noise_deviation

    def from_noise(values: tf.Tensor) -> tf.Tensor:
        return forward(Perturbation(values, first))

    change = perturbation(noise, gradient(from_noise, noise, logits, masked.weights), settings)
    perturbed = forward(Perturbation(change, second))
    losses = divergence(logits, perturbed) + divergence(perturbed, logits)
    return accumulation.share_of_mean(losses, masked.weights, part.masked)


def gradient(
    forward: Callable[[tf.Tensor], tf.Tensor],
    noise: tf.Tensor,
    logits: tf.Tensor,
    weights: tf.Tensor,
) -> tf.Tensor:
    """Computes the gradient, at the noise, that adversarial pretraining takes a step along.

    It is that of KL(clean || perturbed), the mean over an example's masked tokens. Call it in a
    graph, as in a `tf.function`.

    Args:
      forward: computes the logits, float32 [B, N, V], of embeddings to which its argument is added,
        float32 [B, L, size].
      noise: float32 [B, L, size].
      logits: float32 [B, N, V], those of the clean pass.
      weights: float32 [B, N], 1 for masked tokens, else 0.

    Returns:
      float32 [B, L, size].
    """
    shares = weights / tf.maximum(tf.reduce_sum(weights, axis=1, keepdims=True), 1.0)

    of_examples = tf.reduce_sum(divergence(logits, forward(noise)) * shares)
    # Not by a tape: under the one that differentiates the loss it would be the second, for which
    # TensorFlow makes loops that XLA cannot compile.
    (found,) = tf.gradients(of_examples, [noise])
    return found


def perturbation(noise: tf.Tensor, gradient: tf.Tensor, settings: AdversarialSettings) -> tf.Tensor:
    """Takes adversarial pretraining's step from the noise, and scales the sum for each token.

    Args:
      noise, gradient: float32 [B, L, size].
      settings: step size and epsilon.

    Returns:
      float32 [B, L, size], the perturbation, whose largest number for each token is almost 1 or -1;
      not differentiated.
    """
    values = noise + settings.step_size * gradient
    largest = tf.reduce_max(tf.abs(values), axis=-1, keepdims=True)
    return tf.stop_gradient(values / (largest + settings.epsilon))


def divergence(target: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Computes KL(target || other), Kullback-Leibler's divergence; distillation has it, too.

    Args:
      target: float [..., V], logits, which are not differentiated.
      logits: float [..., V], the other logits, of the same dtype.

    Returns:
      Float [...] of that dtype, in nats.
    """
    expected, found = tf.nn.log_softmax(tf.stop_gradient(target)), tf.nn.log_softmax(logits)
    return tf.reduce_sum(tf.exp(expected) * (expected - found), axis=-1)
