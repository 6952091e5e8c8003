import numpy as np
import pytest
import sentencepiece

from data_prep.sentences import vocabulary_training
from tfbio.base.document_records import read_documents
from tfbio.text.fast_tokenizer import load_fast_tokenizer


@pytest.fixture(scope="module")
def sentences(documents_folder):
    """Returns every title and sentence that the vocabularies were learnt on."""
    return [
        text
        for document in read_documents(documents_folder)
        for text in (document.title, *document.sentences)
    ]


def test_cased_text_keeps_its_case():
    texts = ["DNA and RNA of Homo sapiens"] * 3
    cased = vocabulary_training.train_wordpiece(lambda: texts, 60, lower_case=False)
    assert "DNA" in cased and "dna" not in cased
    assert "dna" in vocabulary_training.train_wordpiece(lambda: texts, 60, lower_case=True)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("lower_case", [True, False], ids=["uncased", "cased"])
def test_sentencepiece_has_albert_s_numbers(sentences, tmp_path, kind, lower_case):
    model, text = vocabulary_training.train_sentencepiece(sentences, kind, 2000, lower_case)
    path = tmp_path / "a.model"
    path.write_bytes(model)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    pieces = [line.split("\t")[0] for line in text.splitlines()]
    assert pieces[:5] == ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    assert pieces == [processor.id_to_piece(i) for i in range(2000)]
    encoder = load_fast_tokenizer(path)
    assert (encoder.kind, encoder.vocab_size) == (kind, 2000)
    assert (encoder.pad_id, encoder.unk_id) == (0, 1)
    assert (encoder.cls_id, encoder.sep_id, encoder.mask_id) == (2, 3, 4)
    # What the model does to text is in the model.
    upper = any(char.isupper() for piece in pieces[5:] for char in piece)
    assert upper != lower_case
    assert np.array_equal(encoder(["DNA"])[0], encoder(["dna"])[0]) == lower_case
    assert np.array_equal(encoder(["\uff11\ufb01n"])[0], encoder(["1fin"])[0])
    # Text cannot hold a special token, and what was learnt on is known.
    ids, _ = encoder([*sentences, "[MASK] [SEP] <pad>"])
    assert not np.isin(ids, [0, 2, 3, 4]).any()
    assert np.mean(ids == 1) < 0.001


@pytest.mark.parametrize("lower_case", [True, False], ids=["uncased", "cased"])
def test_transformers_loads_a_unigram_model(sentences, tmp_path, monkeypatch, lower_case):
    """As ALBERT's, with the same ids but for quotation marks, which AlbertTokenizer replaces."""
    import transformers
    from google.protobuf import runtime_version

    # sentencepiece 0.2.3 wants a newer protobuf than TensorFlow 2.20 takes.
    monkeypatch.setattr(runtime_version, "ValidateProtobufRuntimeVersion", lambda *_: None)
    model, _ = vocabulary_training.train_sentencepiece(sentences, "unigram", 2000, lower_case)
    (tmp_path / "spiece.model").write_bytes(model)
    encoder = load_fast_tokenizer(tmp_path / "spiece.model")
    tokenizer = transformers.AlbertTokenizer.from_pretrained(
        tmp_path, do_lower_case=lower_case, keep_accents=True
    )
    assert tokenizer.convert_tokens_to_ids("[MASK]") == encoder.mask_id
    texts = [text for text in sentences if "''" not in text and "``" not in text]
    assert len(texts) > 0.99 * len(sentences) > 2000
    ids, offsets = encoder(texts)
    theirs = tokenizer(texts, add_special_tokens=False)["input_ids"]
    differ = [
        text
        for text, part, other in zip(texts, np.split(ids, offsets[1:-1]), theirs, strict=True)
        if part.tolist() != other
    ]
    # Two ways to cut a word can be equally likely to the last bit: see tfbio/text/tokenization.py.
    assert len(differ) <= 2, differ
