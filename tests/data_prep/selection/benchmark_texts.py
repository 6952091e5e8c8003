"""Gives the tests of exclusion a sentence as benchmarks have it."""

import gzip

from data_prep.selection import fingerprints

SENTENCE = (
    "Mutations of the ATP7B gene cause Wilson disease, an inherited disorder of hepatic copper "
    "transport in man (n = 12)."
)
MASKED = SENTENCE.replace("ATP7B", "@GENE$").replace("Wilson disease", "@DISEASE$")


def reason(excluded, text, **ids):
    """Returns why an article is excluded: "id", "text" or ""."""
    if excluded.has_id(**ids):
        return "id"
    return "text" if excluded.has_text(fingerprints.words(text)) else ""


def lines_of(path):
    content = path.read_bytes()
    content = gzip.decompress(content) if path.suffix == ".gz" else content
    return content.decode().splitlines()
