"""Byte-level BPE, against RoBERTa's tokenizer."""

from tests.tfbio.text.conftest import AWKWARD, TEXT, differing, words_of
from tfbio.text import byte_bpe, tokenization
from tfbio.text.fast_tokenizer import load_fast_tokenizer


def test_byte_bpe_ids_are_those_of_roberta(some_texts, tmp_path):
    import transformers
    from tokenizers import trainers

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = byte_bpe.make_tokenizer()
    trainer = trainers.BpeTrainer(vocab_size=2000, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(some_texts, trainer)
    tokenizer.model.save(str(tmp_path))
    encoder = load_fast_tokenizer(tmp_path / "vocab.json")
    assert (encoder.kind, encoder.vocab_size) == ("byte_bpe", 2000)
    assert (encoder.cls_id, encoder.pad_id, encoder.sep_id) == (0, 1, 2)
    assert (encoder.unk_id, encoder.mask_id) == (3, 4)
    theirs = transformers.RobertaTokenizerFast.from_pretrained(tmp_path)
    texts = [text for text in some_texts + AWKWARD if "<mask>" not in text]
    encoded = theirs(texts, add_special_tokens=False)["input_ids"]
    assert not differing(encoder, texts, encoded)
    words = map(theirs.decode, words_of(encoder, TEXT))
    assert [word.strip() for word in words] == TEXT.split()


def test_a_space_before_a_text_is_in_no_range(vocabulary_of_kind):
    own = tokenization.load_tokenizer(vocabulary_of_kind["byte_bpe"], False)
    for text in (" patients", "  patients", "\n patients", "patients"):
        starts, ends = zip(*own.encode([text])[0].offsets, strict=True)
        covered = [text[start:end] for start, end in zip(starts, ends, strict=True)]
        assert not [part for part in covered if part != part.strip() and part.strip()], text
        assert "".join(covered).strip() == "patients"
