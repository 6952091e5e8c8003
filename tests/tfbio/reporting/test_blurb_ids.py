"""The ids of BLURB's test sets; those of its files are compared in `test_blurb_submission.py`."""

import pytest

from tfbio.formats.task_examples import TaggedSentence
from tfbio.reporting import blurb_ids


def test_pairs_that_are_not_all_there_are_named():
    ids = [f"DDI-DrugBank.d1.s0.p{i}" for i in range(5)]
    with pytest.raises(ValueError, match="DDI-DrugBank.d1.s0 does not have all its pairs"):
        blurb_ids.keys("ddi", ids)
    with pytest.raises(ValueError, match="they are of 2 sentences, not 3069"):
        blurb_ids.keys("chemprot", ["1.T1.T2", "1.T1.T3", "1.T4.T5"])


def test_only_sentences_that_are_numbered_have_an_order():
    sentences = [TaggedSentence("1", ("pain", "."), ("O", "O"))]
    assert blurb_ids.are_in_order("ebm_pico", sentences)
    for task in ("ncbi_disease", "bc5cdr_chem", "bc5cdr_disease", "bc2gm", "jnlpba"):
        assert not blurb_ids.are_in_order(task, sentences), task
