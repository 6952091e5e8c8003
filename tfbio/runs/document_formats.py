"""Reads the documents to annotate, in any of the formats of `annotation_formats` and in XML.

- PubMed XML: title and abstract, with the labels of its sections.
- PMC's full texts (JATS), one or a set of them or a package, as `data_prep.readers.pmc` reads them:
  title, abstract and body, the title of each section where it begins. Captions and the rows of
  tables stand behind the paragraph that their figure or table interrupts.
- BigBio's schema "kb", as Parquet or as a JSON list.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence

from lxml import etree

from data_prep.readers import folders, pmc, pmc_article, pmc_paragraphs, pubmed
from tfbio.base import file_paths, json_files, messages, storage
from tfbio.base.errors import UserError
from tfbio.base.manifests import MANIFEST
from tfbio.formats import bigbio, bioc, pubtator, safe_xml
from tfbio.formats.annotated_documents import Document, FormatError, Passage, joined
from tfbio.formats.text_files import STDIN, read_text, without_halves

_ENDINGS = (".txt", ".pubtator", ".xml", ".nxml", ".tar", ".tgz", ".json", ".parquet")
# Text that would otherwise pass for plain text on standard input.
_XML_OR_JSON = re.compile(r"\s*(<\?xml|<!DOCTYPE|\{\s*\"|\[\s*\{)")
_EMPTY_LINES = re.compile(r"\n[ \t\r]*\n\s*")


def find_files(inputs: Sequence[str], endings: Sequence[str] = _ENDINGS) -> list[str]:
    """Lists the files to predict for: those in the inputs that end as a document format or as told.

    Args:
      inputs: paths of files and folders, which are searched with all folders in them, and globs
        of both; "-" stands for `text_files.STDIN`.
      endings: the endings that a file may have, before any ".gz"; by default those of documents:
        .txt, .pubtator, .xml, .nxml, .tar, .tgz, .json and .parquet.

    Returns:
      A list of the paths, sorted, each file once, however its path is written and whatever links
      to folders lead to it. Of a folder, hidden files are none of them; nor is the manifest of a
      folder that tfbio has written, unless it is named.

    Raises:
      UserError: an input does not exist, gives no file with one of the endings, or is a folder that
        cannot be listed.
    """
    files: set[str] = set()
    for item in inputs:
        if item == "-":
            files.add(STDIN)
            continue
        matches = [item] if os.path.lexists(item) else storage.find(item)
        for folder in filter(os.path.isdir, list(matches)):
            matches += _files_in(folder)
        paths = [x for x in matches if _ending(x) in endings and not os.path.isdir(x)]
        paths = [x for x in paths if x == item or not _is_manifest(x)]
        if not paths:
            wanted = f"{', '.join(endings)} (or one of these with .gz)"
            raise UserError(
                f"--input: {item} {'gives' if matches else 'does not exist; expected'} "
                f"{'no file that ends in' if matches else 'files that end in'} {wanted}."
            )
        files.update(paths)
    once: dict[str, str] = {}
    for path in sorted(files):
        is_here = path != STDIN and not file_paths.is_remote(path)
        once.setdefault(_real_name(path) if is_here else path, path)
    return list(once.values())


def _real_name(path: str) -> str:
    """Returns a file's path without links to folders.

    A link to a file stays: its name may be the id of its text, and two may lead to one file.
    """
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def _files_in(folder: str) -> list[str]:
    """Returns the files in a folder and its subfolders, but for hidden ones."""
    try:
        return list(folders.files_in(folder, hidden=False))
    except OSError as error:
        raise UserError(f"--input: {error.filename} cannot be listed: {error.strerror}.") from error


def _is_manifest(path: str) -> bool:
    """Returns True for the file that says what is in a folder that tfbio has written."""
    return os.path.basename(path) == MANIFEST and "kind" in json_files.read_object_or_empty(
        file_paths.at(path)
    )


def _ending(path: str) -> str:
    """Returns the ending of a path, in lower case, without ".gz"."""
    return os.path.splitext(path.lower().removesuffix(".gz"))[1]


def read(path: str, left_out: list[str] | None = None) -> Iterator[Document]:
    """Reads the documents of a file to predict for, in the document format that its ending names.

    A `.txt` may be in PubTator's format. The file may be compressed with gzip.

    Args:
      path: the path of the file, or `text_files.STDIN`, which is plain text or PubTator.
      left_out: a list that gets a sentence for each article of a set or package that cannot be
        read.

    Yields:
      A `Document` for each document or article, in the order of the file: id, text, and passages
      with their offsets in characters.

    Raises:
      FormatError: the file is not in the format that its ending names, or XML cannot be read.
      TaskFileError: a file of text cannot be read.
    """
    ending = _ending(path)
    if ending in (".xml", ".nxml", ".tar", ".tgz"):
        try:
            yield from _read_xml(path, [] if left_out is None else left_out)
        except safe_xml.BadFile as error:
            raise FormatError(f"{path}: {error}") from error
        except OSError as error:  # of a disk or a network, mostly without the file's name
            raise FormatError(f"{path}: {_unreadable(error)}") from error
    elif ending == ".parquet" or (ending == ".json" and bigbio.is_kb(path)):
        yield from bigbio.texts(bigbio.read(path, "kb"), path)
    elif ending == ".json":
        yield from bioc.read_json(path)
    else:
        text = read_text(path)
        if path == STDIN and _XML_OR_JSON.match(text):
            raise FormatError(
                "--input=-: this is XML or JSON, and standard input is read as plain text or "
                "PubTator: give it as a file."
            )
        if ending == ".pubtator" or pubtator.LINE.match(text.lstrip()):
            yield from pubtator.read(path, text)
        else:
            name = os.path.basename(path)
            name = name[:-3] if name.lower().endswith(".gz") else name
            # A name that is not UTF-8 has halves of surrogates.
            name = without_halves(os.path.splitext(name)[0])
            yield of_text("stdin" if path == STDIN else name, text)


def problem_of(path: str) -> str:
    """Returns why a file is in no document format, as its first bytes tell; "" if it may be.

    So mistakes in thousands of files are told before any of them is read.

    Args:
      path: the path of a file that `find_files` has found.
    """
    try:
        if _ending(path) != ".txt":
            safe_xml.check_not_empty(storage.size(path))
        if _ending(path) in (".xml", ".nxml"):
            with safe_xml.faults(), safe_xml.open_file(path) as stream:
                safe_xml.first_element(stream)
        else:
            with file_paths.at(path).open("rb") as stream:
                stream.read(1)
    except safe_xml.BadFile as error:
        return f"{path}: {error}"
    except OSError as error:
        return f"{path}: {_unreadable(error)}"
    return ""


def _unreadable(error: OSError) -> str:
    return f"it cannot be read ({messages.reason(error)})."


def of_text(name: str, text: str) -> Document:
    """Makes a document of plain text, whose passages are parted by empty lines.

    Args:
      name: the id of the document.
      text: the text, in any format but one that `read` knows.

    Returns:
      A `Document` with this text.
    """
    edges = [0, *(edge for m in _EMPTY_LINES.finditer(text) for edge in m.span())]
    spans = zip(edges[::2], [*edges[1::2], len(text)], strict=True)
    return Document(name, text, tuple(Passage(a, b, "") for a, b in spans if a < b))


def _read_xml(path: str, left_out: list[str]) -> Iterator[Document]:
    """Reads the documents of PubMed's, PMC's or BioC's XML, by the root element."""
    if pmc.is_archive(path):
        yield from _read_full_texts(path, left_out)
        return
    if bioc.is_bioc(path):
        yield from bioc.read(path, bioc.read_documents(path), storage.size(path))
        return
    with safe_xml.faults(), safe_xml.open_file(path) as stream:
        root = safe_xml.first_element(stream)
    if root.tag in pubmed.ROOTS:
        yield from _read_citations(path)
    elif etree.QName(root).localname in pmc.ROOTS:
        yield from _read_full_texts(path, left_out)
    else:
        raise safe_xml.BadFile(
            f"its root is <{str(root.tag)[:80]}>, not one of PubMed's ({pubmed.ROOTS[0]}), PMC's "
            f"({pmc.ROOTS[0]}) or BioC's (collection)."
        )


def _read_citations(path: str) -> Iterator[Document]:
    """Reads the articles of a PubMed file that have a title or an abstract."""
    name = messages.file_name(path)
    for number, citation in enumerate(pubmed.read_citations(path), start=1):
        sections = (f"{x.label}: {x.text}" if x.label else x.text for x in citation.sections)
        parts = [("title", citation.title), *(("abstract", text) for text in sections)]
        if any(text for _, text in parts) and not (citation.deleted or citation.book):
            # One without a PMID has the id that `data_prep.documents` gives it.
            yield _one_below_the_other(citation.pmid or f"{name}#{number}", parts)


def _read_full_texts(path: str, left_out: list[str]) -> Iterator[Document]:
    """Reads the full texts of a file, and notes those that cannot be read."""
    for article in pmc.read_articles(path):
        if isinstance(article, pmc_article.FullText):
            yield _of_full_text(article)
        else:
            left_out.append(f"{path}, {article.name}: {article.sentence}")


def _of_full_text(article: pmc_article.FullText) -> Document:
    """Joins title, abstract and body, with the title of each section where it begins."""
    parts = [("title", article.title)]
    for paragraphs, kind in (
        (article.abstract, "abstract"),
        (article.body, pmc_paragraphs.PARAGRAPH),
    ):
        around: tuple[str, ...] = ()
        for paragraph in paragraphs:
            titles = paragraph.titles
            new = titles[len(os.path.commonprefix([around, titles])) :]
            parts += [("heading", title) for title in new]
            own = kind if paragraph.kind == pmc_paragraphs.PARAGRAPH else paragraph.kind
            parts.append((own, paragraph.text))
            around = titles
    return _one_below_the_other(article.pmcid or article.pmid or article.doi or article.name, parts)


def _one_below_the_other(name: str, parts: Iterable[tuple[str, str]]) -> Document:
    """Joins parts, (kind of passage, text) each, with a line break between them."""
    placed, start = [], 0
    for kind, text in parts:
        placed.append((start, kind, text))
        start += len(text) + 1
    return joined(name, placed)
