"""The limits of what a server takes; `tfbio.serve` makes a flag of each."""

from __future__ import annotations

import dataclasses

from tfbio.base.config import BaseSettings, setting

# A day.
_LONGEST = 86_400


@dataclasses.dataclass(frozen=True)
class RequestLimits(BaseSettings):
    """The limits of a server, on sizes, on requests and on time.

    Attributes:
      max_texts: the most texts, pairs or questions of a request.
      max_characters: the most characters (code points) of a text, a question or a context.
      max_body_bytes: the most bytes of a request's body.
      max_requests: the most requests that are read, wait or are computed at a time.
      body_seconds: the seconds in which the body of a request must be there.
      answer_seconds: the seconds after which a request that waits is given up.

    Raises:
      ConfigError: a value is out of its range.
    """

    max_texts: int = setting(32, "The most texts, pairs or questions of a request.", at_least=1)
    max_characters: int = setting(
        10_000, "The most characters of a text, a question or a context.", at_least=1
    )
    max_body_bytes: int = setting(1_048_576, "The most bytes of a request's body.", at_least=1)
    max_requests: int = setting(
        256,
        "The most requests that are read, wait or are computed at a time. Others are answered with "
        "503.",
        at_least=1,
    )
    body_seconds: float = setting(
        10.0,
        "A request whose body takes longer to arrive is answered with 408.",
        at_least=0.1,
        at_most=_LONGEST,
    )
    answer_seconds: float = setting(
        60.0,
        "A request that waits longer for its answer is answered with 503.",
        at_least=0.1,
        at_most=_LONGEST,
    )
