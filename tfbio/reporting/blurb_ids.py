"""The ids of the examples of BLURB's test sets, by which its evaluators know them.

`tfbio.blurb_submission` says where the evaluators are.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from tfbio.formats.task_examples import Example, TaggedSentence

# How many sentences, pairs, texts or questions BLURB's test sets have.
SIZES = {
    "bc5cdr_chem": 4797,
    "bc5cdr_disease": 4797,
    "ncbi_disease": 940,
    "bc2gm": 5038,
    "jnlpba": 3856,
    "ebm_pico": 2076,
    "chemprot": 15745,
    "ddi": 5716,
    "gad": 534,
    "biosses": 20,
    "hoc": 3547,
    "pubmedqa": 500,
    "bioasq": 140,
}
# Patterns of the ids in BLURB's files; the sentences of the other data sets have none.
PATTERNS = {
    "chemprot": r"\d+\.T\d+\.T\d+",
    "ddi": r"DDI-(DrugBank|MedLine)\.d\d+\.s\d+\.p\d+",
    "gad": r"\d+",
    "biosses": r"\d+",
    "hoc": r"\d+_s\d+",
    "pubmedqa": r"\d{7,8}",
    "bioasq": r"[a-f0-9]{24}",
}
# The first digits of the hash of a test set's sentences in BLURB's order, where their number in it
# is their id: see `are_in_order`.
_ORDERS = {
    "bc5cdr_chem": "db9e208775adf12a",
    "bc5cdr_disease": "db9e208775adf12a",
    "ncbi_disease": "18d928ffef0057e6",
    "bc2gm": "dd6406c171c07244",
    "jnlpba": "1aaa19bdecf1d53d",
}
# The numbers of the sentences of the test sets: before them stand 3,766 + 2,208 of ChemProt's
# training and development sets, and 3,317 + 472 of DDI's.
_SENTENCES = {"chemprot": range(5975, 9044), "ddi": range(3790, 4580)}


def are_in_order(task: str, sentences: Sequence[Example]) -> bool:
    """Returns True if the sentences of a test set are in BLURB's order.

    Args:
      task: `--task`. Where BLURB numbers no sentences the result is True.
      sentences: a `TaggedSentence` each; their tags do not count.
    """
    if task not in _ORDERS:
        return True
    words = (cast(TaggedSentence, sentence).words for sentence in sentences)
    text = "\n\n".join(map("\n".join, words))
    return hashlib.sha256(text.encode()).hexdigest()[:16] == _ORDERS[task]


def keys(task: str, ids: Sequence[str]) -> list[str]:
    """Returns the ids of a submission.

    Args:
      task: `--task`.
      ids: of the task's test file, in its order.

    Returns:
      Those of BLURB's evaluators, one for each.

    Raises:
      ValueError: the ids of the data are not those of BLURB's test set.
      KeyError: the examples of the task have no ids.
    """
    for number, id_ in enumerate(ids, start=1):
        if not re.fullmatch(PATTERNS[task], id_):
            raise ValueError(f"number {number} is {id_!r:.60}")
    if len(set(ids)) < len(ids):
        raise ValueError("one of them stands twice")
    if task not in _SENTENCES:
        return [id_.replace("_s", "_") for id_ in ids]  # only HoC's have that
    of_sentences = _chemprot_sentences if task == "chemprot" else _ddi_sentences
    sentences = list(of_sentences(ids))
    if len(sentences) != len(_SENTENCES[task]):
        raise ValueError(f"they are of {len(sentences)} sentences, not {len(_SENTENCES[task])}")
    numbered = zip(_SENTENCES[task], sentences, strict=True)
    return [f"{number}{pair}" for number, pairs in numbered for pair in pairs]


def _chemprot_sentences(ids: Iterable[str]) -> Iterator[list[str]]:
    """Yields the pairs `.T1.T2` of each sentence.

    The pairs of one sentence share mentions, those of two sentences do not.
    """
    before = ""
    mentions: set[str] = set()
    pairs: list[str] = []
    for id_ in ids:
        pmid, *pair = id_.split(".")
        if pairs and (pmid != before or mentions.isdisjoint(pair)):
            yield pairs
            mentions, pairs = set(), []
        before = pmid
        mentions.update(pair)
        pairs.append(f".{pair[0]}.{pair[1]}")
    yield pairs


def _ddi_sentences(ids: Iterable[str]) -> Iterator[list[str]]:
    """Yields the pairs `_T0_T1` of each sentence: all pairs of its drugs, in their order.

    Raises:
      ValueError: a sentence does not have all its pairs.
    """
    for name, own in itertools.groupby(ids, key=lambda id_: id_.rpartition(".")[0]):
        count = len(list(own))
        drugs = math.isqrt(2 * count) + 1  # n drugs have n (n - 1) / 2 pairs
        pairs = [f"_T{a}_T{b}" for a, b in itertools.combinations(range(drugs), 2)]
        if len(pairs) != count:
            raise ValueError(f"the sentence {name} does not have all its pairs")
        yield pairs
