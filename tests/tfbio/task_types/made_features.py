"""Makes the windows of made-up texts for the tests of batches."""

import numpy as np

from tfbio.models.head_config import NO_TARGET
from tfbio.task_types.features import Features, PerToken


def make_features(lengths, of_tokens=True, seed=0):
    """Windows with targets for each token, or each window; and two groups of positions."""
    rng = np.random.default_rng(seed)
    ids = [rng.integers(5, 200, length).astype(np.int32) for length in lengths]
    segments = [rng.integers(0, 2, length).astype(np.int32) for length in lengths]
    numbers = np.arange(len(lengths))
    if not of_tokens:
        targets = [rng.integers(0, 3, 2).astype(np.float32) for _ in lengths]
        groups = [rng.integers(0, length, [2, 3]) for length in lengths]
        return Features(
            ids, segments, numbers, per_window={"targets": targets}, positions={"groups": groups}
        )
    targets = [rng.integers(0, 3, length).astype(np.int32) for length in lengths]
    scores = [rng.random([length, 3]).astype(np.float32) for length in lengths]
    arrays = {"targets": PerToken(targets, NO_TARGET), "scores": PerToken(scores, 0.5)}
    return Features(ids, segments, numbers, arrays)
