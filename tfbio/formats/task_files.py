"""Reads the files of the tasks in their official formats: one function for each format.

Files may be gzip-compressed, begin with a byte-order mark and have Windows line ends. A line that
is not as its format says stops the reading: nothing is mended or left out in silence.

Data of the user's own are in one of these formats, or in one of `tables`; see `OwnTask`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Literal

from tfbio.formats.label_sets import HALLMARKS
from tfbio.formats.tables import read_rows, read_table, stands_in
from tfbio.formats.task_examples import (
    LabelledText,
    Question,
    TaggedSentence,
    Where,
    listed,
    mistake,
)
from tfbio.formats.text_files import (
    field_of,
    not_empty,
    parse_json,
    read_lines,
    texts_only,
)

HOC_HEADER = ("labels", "sentence", "index")


def read_tagged_words(
    path: str, types: Sequence[str] | None = None, scheme: Literal["BIO", "IO"] = "BIO"
) -> list[TaggedSentence]:
    """Reads a word and its tag a line, an empty line between sentences (CoNLL, MTL, BLURB).

    Tabs or single blanks separate the columns; the first is the word, the last the tag. Those
    between them are not kept, and of the lines that begin a document its number alone, as BLURB's
    have it (`-DOCSTART- (10070173)`).

    A file with tags S or E is in the scheme IOBES, one with U or L in BILOU; both are given in BIO:
    S and U, the only word of an entity, are B, and E and L, its last, are I.

    Args:
      path: the file.
      types: the types of entities; None for any. A file may leave out the only type of a task, as
        BLURB's do (B, I, O).
      scheme: "BIO", where an entity begins with B, in any of its forms; "IO" for EBM-PICO, which
        has no B.

    Returns:
      A list of at least one `TaggedSentence`, in the order of the file, with tags such as
      "B-Chemical" or "O".

    Raises:
      TaskFileError: the file cannot be read or is empty, a line is not of this format, or its tag
        goes on with an entity that did not begin.
    """
    sentences: list[TaggedSentence] = []
    words: list[str] = []
    tags: list[str] = []
    width, document = 0, ""
    lines = read_lines(path)
    in_file = _scheme(lines) if scheme == "BIO" else scheme
    before = "O"
    for number, line in enumerate([*lines, ""], start=1):
        if not line.strip(" \t") or line.startswith("-DOCSTART-"):
            if words:
                first = number - len(words)
                where = (path, first)
                own = (tuple(words), tuple(tags))
                sentences.append(TaggedSentence(str(first), *own, document, where))
                words, tags, before = [], [], "O"
            if line.startswith("-DOCSTART-"):
                begun = re.fullmatch(r"-DOCSTART- \(?(\d+)\)?", line)
                document = begun[1] if begun else ""
            continue
        cells = line.split("\t" if "\t" in line else " ")
        width = width or max(len(cells), 2)
        if len(cells) != width or not cells[0]:
            raise mistake(
                (path, number),
                f"expected {width} columns with the word first and its tag last, separated by "
                f"single tabs or blanks, found {line!r:.60}",
            )
        problem = _tag_problem(cells[-1], before, types, in_file)
        if problem:
            fit = [i for i, x in enumerate(cells[:-1]) if not _tag_problem(x, x, types, in_file)]
            raise mistake((path, number), problem + stands_in("tag", fit))
        before = cells[-1]
        words.append(cells[0])
        tags.append(_IN_BIO[in_file].get(before[0], before[0]) + before[1:])
    return not_empty(path, sentences)


# The schemes of tags, and for each the letters that are another one in BIO.
_IN_BIO = {"BIO": {}, "IO": {}, "IOBES": {"S": "B", "E": "I"}, "BILOU": {"U": "B", "L": "I"}}


def _scheme(lines: Sequence[str]) -> str:
    """Returns the scheme of a file whose entities begin with B, by the last column of its lines."""
    tags = {re.split("[\t ]", line)[-1] for line in lines}
    prefixes = {tag[0] for tag in tags if re.fullmatch("[SEUL](-.+)?", tag)}
    for scheme in ("IOBES", "BILOU"):
        if prefixes and prefixes <= set(scheme):
            return scheme
    return "BIO"


def _tag_problem(tag: str, before: str, types: Sequence[str] | None, scheme: str) -> str:
    """Says why a tag cannot stand after the one before it; "" if it can."""
    prefix, _, entity_type = tag.partition("-")
    if tag == "O":
        return ""
    if prefix == "O" or prefix not in [*scheme] or tag.endswith("-"):
        letters = ", ".join(f"{letter}-TYPE" for letter in sorted(scheme) if letter != "O")
        return f"expected a tag of the scheme {scheme} (O, {letters}), found {tag!r:.60}"
    if types is not None and entity_type not in types and (entity_type or len(types) != 1):
        return f"unknown type in the tag {tag!r:.60}; the types are {listed(types)}"
    begin = f"B{tag[1:]}"
    inside = scheme != "IO" and prefix in ("I", "E", "L")
    if inside and before not in (begin, f"I{tag[1:]}"):
        return f"the tag {tag!r} follows {before!r}: write {begin!r} where an entity begins"
    return ""


def read_clinical_sts(path: str) -> list[LabelledText]:
    """Reads BLUE's MedSTS or ClinicalSTS: a header; the id first, two texts and the score last.

    Returns:
      A list of at least one `LabelledText`, with both texts and as its label a float from 0 to 5.

    Raises:
      TaskFileError: the file cannot be read, the columns are others, or a score is not within 0 and
        5.
    """
    header = read_lines(path)[0].split("\t")
    if len(header) < 4 or "score" in header[:-1]:
        message = "expected a header with an id first and two sentences and their score last"
        raise mistake((path, 1), f"{message}, found {', '.join(header)!r:.200}")
    columns = ["id", *[""] * (len(header) - 4), "text", "pair", "score"]
    return read_table(path, columns, header, score_range=(0.0, 5.0))


def read_hoc(path: str, labels: Sequence[str] = HALLMARKS) -> list[LabelledText]:
    """Reads BLURB's or BLUE's HoC: header labels, sentence, index.

    The labels are `0_0,1_1,...`, 1 behind the number of each that holds; the index is `PMID_sN`.

    Args:
      path: the file.
      labels: the names of the labels, in the order of their numbers.

    Returns:
      A list of at least one `LabelledText`: its label is a tuple of the names that hold, its id the
      index, and its document the PMID.

    Raises:
      TaskFileError: the file cannot be read, or a line is not so.
    """
    digits = re.compile(",".join(f"{i}_[01]" for i in range(len(labels))))
    examples = []
    for number, cells in read_rows(path, 3, HOC_HEADER):
        flags, text, name = cells
        document, mark, _ = name.rpartition("_s")
        if not digits.fullmatch(flags) or not mark:
            fit = [i for i, cell in enumerate(cells) if i and digits.fullmatch(cell)]
            wanted = f"labels 0_0,1_0 to {len(labels) - 1}_0 (or _1), a sentence and PMID_sN"
            raise mistake((path, number), f"expected {wanted}{stands_in('label', fit)}")
        if not text.strip():
            raise mistake((path, number), "expected a text in column 2, found none")
        held = tuple(x for x, flag in zip(labels, flags.split(","), strict=True) if flag[-1] == "1")
        where = (path, number)
        examples.append(LabelledText(name, text, held, document=document, where=where))
    return not_empty(path, examples)


def hoc_labels(held: Collection[str]) -> str:
    """Returns some of the `HALLMARKS` as the text that `read_hoc` reads, `0_0,1_1,...`."""
    return ",".join(f"{i}_{int(name in held)}" for i, name in enumerate(HALLMARKS))


def read_bioasq_factoid(path: str) -> list[Question]:
    """Reads the factoid questions of a BioASQ file, task B, in the format of its release.

    As BioBERT and BioM have it, each snippet of a question is a context of its own with the id
    `QUESTION_000` and so on, and an answer begins where the context has it first; here as whole
    words, in capitals or not.

    Args:
      path: the file.

    Returns:
      A list of at least one `Question`, one for each snippet (with the context "" where there is
      none), with the question's id as its `question_id`. An answer that the context does not have
      starts at -1.

    Raises:
      TaskFileError: the file cannot be read or has no factoid question, a question is incomplete,
        or an id stands twice.
    """
    questions = []
    for name, text, snippets, record, where in _factoids(path):
        # A list of answers, or of lists of synonyms; a test file may have none.
        gold = record.get("exact_answer") or []
        gold = [gold] if isinstance(gold, str) else gold
        answers: list[str] = []
        for answer in field_of({"exact_answer": gold}, "exact_answer", where, list):
            answers += texts_only(answer if isinstance(answer, list) else [answer], where)
        answers = list(dict.fromkeys(answers))
        patterns = [rf"(?<!\w){re.escape(answer)}(?!\w)" for answer in answers]
        # A question without snippets cannot be answered, but counts.
        for i, context in enumerate(snippets or [""]):
            matches = [re.search(pattern, context, re.IGNORECASE) for pattern in patterns]
            starts = tuple(match.start() if match else -1 for match in matches)
            context_id = f"{name}_{i:03}"
            questions.append(
                Question(context_id, text, context, tuple(answers), starts, name, where)
            )
    return not_empty(path, questions)


def _factoids(path: str) -> Iterator[tuple[str, str, list[str], dict, Where]]:
    """Yields id, question, snippets, record and place of each factoid question."""
    factoids: dict[str, dict] = {}
    for i, record in enumerate(
        field_of(parse_json(path), "questions", (path, "the file"), list), 1
    ):
        where = (path, f"question {i} of the file")
        name = field_of(record, "id", where, str)
        if name in factoids:
            raise mistake(where, f"the id {name!r} stands there twice: give another")
        if record.get("type") == "factoid":
            factoids[name] = record
    for name, record in factoids.items():
        where = (path, f"question {name}")
        snippets = [
            field_of(snippet, "text", where, str).replace("\n", " ")
            for snippet in field_of(record, "snippets", where, list)
        ]
        text = field_of(record, "body", where, str).replace("\n", " ")
        yield name, text, snippets, record, where


def read_squad(path: str) -> list[Question]:
    """Reads SQuAD v1.1 or v2.0 JSON, the format also of BioBERT's BioASQ files.

    Returns:
      A list of at least one `Question`, in the order of the file, with its answers (none where the
      question has none) and the offset of each in the context.

    Raises:
      TaskFileError: the file cannot be read, a question is incomplete, or an answer does not stand
        where the file says.
    """
    questions = []
    for i, article in enumerate(field_of(parse_json(path), "data", (path, "the file"), list), 1):
        paragraphs = field_of(article, "paragraphs", (path, f"article {i}"), list)
        for j, paragraph in enumerate(paragraphs, 1):
            where = (path, f"article {i}, paragraph {j}")
            context = field_of(paragraph, "context", where, str)
            for record in field_of(paragraph, "qas", where, list):
                name = field_of(record, "id", (path, f"a question of article {i}"), str)
                where = (path, f"question {name}")
                answers = field_of({"answers": record.get("answers") or []}, "answers", where, list)
                texts = tuple(field_of(answer, "text", where, str) for answer in answers)
                starts = tuple(field_of(answer, "answer_start", where, int) for answer in answers)
                for text, start in zip(texts, starts, strict=True):
                    stands = context[start : start + len(text)] if start >= 0 else ""
                    if not text or stands.lower() != text.lower():
                        message = f"expected {text!r} at character {start} of the context"
                        raise mistake(where, f"{message}, found {stands!r}")
                text = field_of(record, "question", where, str)
                questions.append(Question(name, text, context, texts, starts, where=where))
    return not_empty(path, questions)
