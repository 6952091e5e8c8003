"""A vocabulary of text with capital letters is told from one of text in lower case."""

import pytest

from data_prep import corpus_report, examples, fertility
from data_prep.sentences import checked_tokenizer
from tfbio.base.errors import UsageError
from tfbio.text import special_tokens

CASED, UNCASED = ["the", "The", "##s"], ["the", "##s", "a"]


@pytest.fixture
def vocabulary(tmp_path):
    def write(tokens):
        path = tmp_path / "vocab.txt"
        path.write_text("\n".join((*special_tokens.SPECIAL_TOKENS, *tokens, "")))
        return path

    return write


def test_a_vocabulary_goes_with_text_of_its_case(vocabulary):
    assert checked_tokenizer.load(vocabulary(CASED), False)(["The"])[0].tolist() == [6]
    assert checked_tokenizer.load(vocabulary(UNCASED), True)(["The"])[0].tolist() == [5]


@pytest.mark.parametrize(
    "tokens, lower_case, message",
    [
        (CASED, True, r"_case=true, but 1 of 4 tokens in .*vocab.txt .* give --nolower_case\."),
        (UNCASED, False, r"_case=false, but no token in .*vocab.txt .* give --lower_case\."),
    ],
)
def test_the_other_case_is_named(tokens, lower_case, message, vocabulary, documents_folder):
    path = vocabulary(tokens)
    settings = examples.ExampleSettings(lower_case=lower_case)
    for call in (
        lambda: checked_tokenizer.load(path, lower_case),
        lambda: examples.make_examples(documents_folder, path, path.parent / "out", settings),
        lambda: fertility.report([str(path)], lower_case, str(documents_folder)),
        lambda: corpus_report.measure(documents_folder, str(path), lower_case),
    ):
        with pytest.raises(UsageError, match=message):
            call()
    assert not (path.parent / "out").exists()
