"""Words of raw text, as the corpora of tagged words have them.

Three rules serve all corpora, and the training data tell which is theirs (`rule_of`):

- "symbols" parts words at every punctuation mark and symbol: "IL-2" is three words, "0.05" and
  "5±2" too. So are BC5CDR, NCBI disease and BC2GM in BLURB's form: of NCBI's test set, whose raw
  text there is, all 24,497 words and 940 sentences come out the same. `data_prep.corpora` cuts so,
  too, but there combining marks and invisible characters (U+200B) are separate words.
- "punctuation" does the same, except for symbols beyond ASCII, which stay with their neighbours:
  "Fluad®" and "5±2" are one word each. BERT's tokenizer cuts so before it looks words up.
- "blanks" parts words at white space, and sets apart brackets, quotes, %, 's, what of ,;:?! comes
  before white space, and the period at the sentence's end: "IL-2" and "0.05" are one word. So are
  JNLPBA and EBM-PICO. Their raw text is not at hand; with the blanks around punctuation taken out
  again, 99.8 % of the sentences of JNLPBA's test set come out the same and 98.2 % of EBM-PICO's
  (99.98 % and 99.8 % of the words; by "punctuation" 29 % and 50 % of the sentences).

`tests/tfbio/task_types/test_words.py` counts these figures.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tfbio.formats.task_examples import TaggedSentence
from tfbio.text.word_cutters import CUTTERS

_END = r"""\.(?=[\s"')\]]*$)"""
_BLANKS = re.compile(
    rf"""[()\[\]{{}}"%]|[,;:?!](?=\s|$)|{_END}|'s\b"""
    rf"""|(?:(?!{_END}|'s\b)[^\s()\[\]{{}}"%,;:?!]|[,;:?!](?!\s|$))+"""
)
# Of the words of a corpus of the rule "punctuation", this share has none inside. The corpora have
# 1 (BC5CDR, NCBI disease, BC2GM), 0.93 (JNLPBA) or 0.95 (EBM-PICO).
_ENOUGH = 0.99


def spans(sentence: str, rule: str) -> list[tuple[int, int]]:
    """Cuts a raw sentence into words as a task's corpus has them, and returns the words' spans.

    Args:
      sentence: one alone, since the period at its end is a word.
      rule: "symbols", "punctuation" or "blanks", as `rule_of` returns it; any other counts as
        "blanks".

    Returns:
      The characters [start, end) of each word, in order.
    """
    if rule in CUTTERS:
        return [span for _, span in CUTTERS[rule].pre_tokenize_str(sentence)]
    return [match.span() for match in _BLANKS.finditer(sentence)]


def rule_of(sentences: Sequence[TaggedSentence]) -> str:
    """Tells the rule by which a task's training sentences were cut into words.

    Args:
      sentences: of the training set.

    Returns:
      "blanks" if "punctuation" divides more than 1 % of the words any further. Else "symbols",
      unless that rule divides words that "punctuation" does not: "punctuation" then.

    Raises:
      ZeroDivisionError: there are no words.
    """
    words = [word for sentence in sentences for word in sentence.words]
    whole = {word: len(spans(word, "punctuation")) <= 1 for word in set(words)}
    share = sum(whole[word] for word in words) / len(words)
    if share < _ENOUGH:
        return "blanks"
    # Symbols are too rare for a share of all words. Words without any fit both rules.
    symbols_apart = all(len(spans(word, "symbols")) <= 1 for word in whole if whole[word])
    return "symbols" if symbols_apart else "punctuation"
