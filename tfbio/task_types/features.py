"""The windows of a task's examples, as the encoder reads them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np


class PerToken(NamedTuple):
    """An array of `Features` that has a value, or several, for each token.

    Attributes:
      values: an array [tokens, ...] for each window, of any dtype.
      padding: the value where there is no token.
    """

    values: list[np.ndarray]
    padding: float = 0


@dataclasses.dataclass(frozen=True)
class Features:
    """The features of a task's examples: the windows of tokens that the encoder reads of them.

    A long example may have several windows. A task type names the arrays that its head and its loss
    take from a batch. Lists of arrays have one array for each window. Whatever else leads from the
    outputs back to the examples is in a subclass that the task type defines.

    Attributes:
      input_ids: int32 [tokens] for each window, the ids of its tokens.
      segment_ids: int32 [tokens] for each window, 0, or 1 for the second text of a pair.
      example: int64 [windows], the number of the example that each window is of.
      per_token: name -> a `PerToken`, such as the targets of words.
      per_window: name -> an array [...] for each window, such as the targets of texts. The losses
        are then for each window, too.
      positions: name -> int [groups, most tokens] for each window: the tokens of some groups,
        counted from the start of the window; a group with fewer tokens has some of them again.
    """

    input_ids: list[np.ndarray]
    segment_ids: list[np.ndarray]
    example: np.ndarray
    per_token: Mapping[str, PerToken] = dataclasses.field(default_factory=dict)
    per_window: Mapping[str, list[np.ndarray]] = dataclasses.field(default_factory=dict)
    positions: Mapping[str, list[np.ndarray]] = dataclasses.field(default_factory=dict)

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each window, int64 [windows]."""
        return np.array([len(ids) for ids in self.input_ids], np.int64)

    def take(self, numbers: np.ndarray) -> Self:
        """Returns features with some of the windows, or with some of them several times.

        Args:
          numbers: int [n], the numbers of the windows, in the order in which they are to be.
        """

        def taken(value: Any) -> Any:
            if isinstance(value, PerToken):
                return PerToken(taken(value.values), value.padding)
            if isinstance(value, Mapping):
                return {name: taken(own) for name, own in value.items()}
            return value[numbers] if isinstance(value, np.ndarray) else [value[n] for n in numbers]

        fields = dataclasses.fields(self)
        return type(self)(**{x.name: taken(getattr(self, x.name)) for x in fields})
