"""Cuts texts into words at punctuation, as BERT does before it looks words up; also at symbols.

`task_types.words` cuts texts with it, and `in_graph.words` makes its table of characters of it.
"""

from __future__ import annotations

from tokenizers import Regex, pre_tokenizers

_BERT = pre_tokenizers.BertPreTokenizer()
# BERT makes words of ASCII's symbols only: "Fluad®" and "5±2" are one word each.
_EACH_SYMBOL = pre_tokenizers.Split(Regex(r"\p{S}"), "isolated")

# Rule -> its pre-tokenizer, whose `pre_tokenize_str` returns words with their offsets.
CUTTERS: dict[str, pre_tokenizers.PreTokenizer] = {
    "punctuation": _BERT,
    "symbols": pre_tokenizers.Sequence([_BERT, _EACH_SYMBOL]),
}
