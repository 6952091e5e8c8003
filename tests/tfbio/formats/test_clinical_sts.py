"""The reader of ClinicalSTS, on an invented example: the corpus cannot be had here."""

from tfbio.formats import clinical_sts
from tfbio.formats.task_examples import LabelledText


def test_clinical_sts_has_the_texts_and_the_score_last(write):
    names = "index genre file year old_index sentence1 sentence2 score".replace(" ", "\t")
    path = write(f"{names}\n7\tgenre\tfile\t2012\t9\tThe pt walks.\tPatient is walking.\t4.5\n")
    (example,) = clinical_sts.read(path)
    assert example == LabelledText("7", "The pt walks.", 4.5, "Patient is walking.")
    assert isinstance(example.label, float)
