import html
import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree
from collections import Counter
from pathlib import Path

import pytest

from data_prep import documents
from data_prep.readers import input_files, pmc, pubmed
from data_prep.running import pipeline
from data_prep.selection import articles, boilerplate, document_shards, input_units
from tests import reference
from tests.data_prep.pubmed_articles import article, article_set
from tfbio.base.document_records import read_documents
from tfbio.base.errors import DataError
from tfbio.base.manifests import read_manifest, verify
from tfbio.formats import safe_xml

ROOT = Path(__file__).resolve().parents[2]
ONE_WORKER = pipeline.Runner(workers=1)


def make(inputs, output, strict=False, overwrite=False, **settings):
    settings = documents.DocumentSettings(**{"sentence_splitter": "scispacy"} | settings)
    how = {"strict": strict, "overwrite": overwrite, "runner": ONE_WORKER}
    return documents.make_documents(input_files.find_files(inputs), output, settings, **how)


def stop(*_, **__):
    raise KeyboardInterrupt("stop")


def test_documents_of_real_articles(documents_folder, pubmed_slice):
    manifest = read_manifest(documents_folder, "documents")
    verify(documents_folder, manifest, full=True)
    result = {d.id: d for d in read_documents(documents_folder)}
    read = [c for p in sorted(pubmed_slice.iterdir()) for c in pubmed.read_citations(p)]
    # The later one wins.
    expected = {f"pmid:{c.pmid}": c for c in read if c.sections and not c.retracted}
    assert result.keys() == expected.keys()
    assert manifest.counts["documents"] == len(result) == sum(s.records for s in manifest.shards)
    assert manifest.counts["citation"] == len(read) == 300
    assert sum(manifest.counts["left_out"].values()) == len(read) - len(result)
    assert manifest.counts["sentences"] == sum(len(d.sentences) for d in result.values())
    assert {d.source for d in result.values()} == {path.name for path in pubmed_slice.iterdir()}
    for id_, document in result.items():
        citation = expected[id_]
        assert document.title == citation.title, id_
        # Sentences keep to their section, and together are its text.
        pairs = list(zip(document.sections, document.sentences, strict=True))
        for label, category, text in citation.sections:
            category = category or ("UNASSIGNED" if label else "")
            text, _ = boilerplate.without_boilerplate(text)
            rest = text.replace(" ", "")
            while rest:
                section, sentence = pairs.pop(0)
                assert section == category, (id_, label, text)
                assert rest.startswith(sentence.replace(" ", "")), (id_, label, text)
                rest = rest[len(sentence.replace(" ", "")) :]
        assert not pairs, id_
    # In the order of the files, and there of the articles.
    newest = {id_: index for index, id_ in enumerate(f"pmid:{c.pmid}" for c in read)}
    order = [newest[d.id] for d in read_documents(documents_folder)]
    assert order == sorted(order) and len(manifest.shards) > 3


@pytest.mark.parametrize(("partition_bytes", "shard_megabytes"), [(64 << 20, 2.0), (100, 1e-5)])
def test_the_newest_version_wins_and_deletions_count(
    tmp_path, monkeypatch, partition_bytes, shard_megabytes
):
    """Also where most texts are units of their own, and there are more partitions than units."""
    monkeypatch.setattr(documents, "_PARTITION_BYTES", partition_bytes)
    base, first, second = (
        article_set(
            tmp_path / "pubmed21n0001.xml",
            *(article(n, f"old {n}") for n in (1, 2, 3, 4, 5)),
            article(6, "early 6"),
            article(6, "late 6"),
            article(7, "no abstract 7", ""),
        ),
        article_set(
            tmp_path / "pubmed21n0002.xml",
            article(2, "new 2"),
            article(5, "lost its abstract 5", ""),
            "<DeleteCitation><PMID>3</PMID><PMID>4</PMID><PMID>99</PMID></DeleteCitation>",
        ),
        article_set(tmp_path / "pubmed21n0003.xml", article(4, "again 4")),
    )
    inputs = [second, base, first]  # in no order
    manifest = make(inputs, tmp_path / "out", shard_megabytes=shard_megabytes)
    titles = {d.id: d.title for d in read_documents(tmp_path / "out")}
    assert titles == {
        "pmid:1": "old 1",
        "pmid:2": "new 2",
        "pmid:4": "again 4",
        "pmid:6": "late 6",
    }
    counts = manifest.counts
    assert (counts["citation"], counts["deletion"], counts["documents"]) == (11, 3, 4)
    assert counts["left_out"] == {
        "superseded": 4,  # 2, 4, 5, 6
        "deleted": 1,  # 3
        "without_text": 2,  # 5, 7
    }


def test_a_superseded_citation_is_counted_with_its_other_abstracts(tmp_path):
    other = "<OtherAbstract><AbstractText>In short, {}.</AbstractText></OtherAbstract>"
    old, new = (
        article_set(
            tmp_path / f"pubmed21n000{number}.xml",
            article(1, name).replace(
                "</MedlineCitation>", other.format(name) + "</MedlineCitation>"
            ),
        )
        for number, name in enumerate(("old", "new"), start=1)
    )
    selection = articles.Selection(other_abstracts="all")
    manifest = make([old, new], tmp_path / "out", selection=selection)
    result = {d.id: d.sentences for d in read_documents(tmp_path / "out")}
    assert result.keys() == {"pmid:1", "pmid:1#other_abstract1"}
    assert result["pmid:1#other_abstract1"] == ["In short, new."]
    assert manifest.counts["left_out"] == {"superseded": 2}


def test_texts_of_an_article_that_are_left_out_alone_are_counted_and_listed(tmp_path):
    """A title with two other abstracts, of which one is short; and all of it in a newer file."""
    others = "".join(
        f"<OtherAbstract><AbstractText>{text}</AbstractText></OtherAbstract>"
        for text in ("Short.", "It is long enough.")
    )
    text = article(1, "one", "").replace("</MedlineCitation>", f"{others}</MedlineCitation>")
    inputs = [article_set(tmp_path / f"pubmed21n000{n}.xml", text) for n in (1, 2)]
    selection = articles.Selection(other_abstracts="all", min_words=3)
    counts = make(inputs, tmp_path / "out", selection=selection).counts
    assert [d.id for d in read_documents(tmp_path / "out")] == ["pmid:1#other_abstract2"]
    assert (counts["citation"], counts["other_abstract"], counts["documents"]) == (2, 4, 1)
    assert counts["left_out"] == {"superseded": 3, "without_text": 1, "too_short": 1}
    newer = [line for line in left_out_of(tmp_path / "out") if line["file"][-5] == "2"]
    assert {line["id"]: line["reason"] for line in newer} == {
        "pmid:1": "without_text",
        "pmid:1#other_abstract1": "too_short",
    }


def test_bad_files_are_left_out_whole_and_named(tmp_path, capsys):
    good = article_set(tmp_path / "good.xml", article(1, "one"))
    cut = article_set(tmp_path / "cut.xml", article(2, "two"), article(3, "three"))
    Path(cut).write_bytes(Path(cut).read_bytes()[:-30])  # two whole articles, then a break
    (tmp_path / "none.xml.gz").touch()
    inputs = [str(tmp_path)]
    manifest = make(inputs, tmp_path / "out")
    assert [d.id for d in read_documents(tmp_path / "out")] == ["pmid:1"]
    assert manifest.counts["bad_input_files"] == 2
    said = capsys.readouterr().out
    assert "cut.xml: it is not well-formed" in said and "none.xml.gz: the file is empty" in said

    with pytest.raises(DataError, match=r"2 of 3 .* --strict .*cut.xml.* 1 more"):
        make(inputs, tmp_path / "strict", strict=True)
    assert "none.xml.gz: the file is empty" in capsys.readouterr().out
    assert not (tmp_path / "strict").exists()
    with pytest.raises(DataError, match="2 of 3"):  # as strict of what is finished
        make(inputs, tmp_path / "out", strict=True)
    os.remove(good)
    with pytest.raises(DataError, match="2 of 2 .* no other input was good"):
        make(inputs, tmp_path / "all_bad")
    assert not (tmp_path / "all_bad").exists()


def test_duplicates_and_benchmarks_are_left_out(tmp_path, capsys):
    words = "Of the rats in this trial all but one were found to prefer the brighter of two boxes."
    once = article_set(
        tmp_path / "a.xml",
        article(9, "first", words),
        article(8, "second", words.upper()),
        article(7, "third", words.replace("rats", "mice") + " It was so." * 20),
        article(6, "a benchmark's"),
    )
    (tmp_path / "benchmark.txt").write_text("6\n")

    def result(**settings):
        manifest = make([once], tmp_path / "out", overwrite=True, **settings)
        ids = {d.id for d in read_documents(tmp_path / "out")}
        return ids, manifest.counts["left_out"]

    assert result() == ({"pmid:6", "pmid:7", "pmid:8"}, {"exact_duplicate": 1})
    ids = {f"pmid:{n}" for n in (6, 7, 8, 9)}
    assert result(duplicates="keep") == (ids, {})
    excluded = result(duplicates="keep", exclude=[str(tmp_path / "benchmark.txt")])
    assert excluded == (ids - {"pmid:6"}, {"excluded_by_id": 1})
    assert f"--exclude: {tmp_path}/benchmark.txt: 1 id, 0 texts\n" in capsys.readouterr().out
    # The same folder, another benchmark, the same process.
    (tmp_path / "benchmark.txt").write_text(f"{words}\n")
    excluded = result(duplicates="keep", exclude=[str(tmp_path / "benchmark.txt")])
    assert excluded == ({"pmid:6"}, {"excluded_by_text": 3})


COPIED = "Of the rats in this trial all but one were found to prefer the brighter of two boxes."
PMC_COPY = f"""<article><front><article-meta><article-id pub-id-type="pmc">77</article-id>
<title-group><article-title>A copy</article-title></title-group><abstract><p>{COPIED}</p></abstract>
</article-meta></front><body><p>The body says more.</p></body></article>"""


@pytest.mark.parametrize("by", ["excluded_by_id", "retracted"])
@pytest.mark.parametrize("numbers", [(111, 222), (222, 111)])
def test_copies_of_an_article_that_is_left_out_are_left_out(tmp_path, by, numbers):
    """They go with an article left out by its id or as retracted, whatever their own id is."""
    left_out, copy = numbers
    parts = {number: article(number, f"no {number}", COPIED) for number in numbers}
    (tmp_path / "ids.txt").write_text(f"{left_out if by == 'excluded_by_id' else 333}\n")
    if by == "retracted":
        types = "<PublicationType>Retracted Publication</PublicationType>"
        parts[left_out] = parts[left_out].replace(
            "</Article>", f"<PublicationTypeList>{types}</PublicationTypeList></Article>"
        )
    (tmp_path / "copy.nxml").write_text(PMC_COPY)
    inputs = [
        article_set(tmp_path / "a.xml", parts[left_out], article(4, "another")),
        article_set(tmp_path / "b.xml", parts[copy]),
        str(tmp_path / "copy.nxml"),
    ]

    def result(duplicates="near"):
        exclude = (str(tmp_path / "ids.txt"),)
        manifest = make(
            inputs, tmp_path / "out", overwrite=True, exclude=exclude, duplicates=duplicates
        )
        reasons = {line["id"]: line["reason"] for line in left_out_of(tmp_path / "out")}
        assert Counter(reasons.values()) == manifest.counts["left_out"]
        return {d.id for d in read_documents(tmp_path / "out")}, reasons

    copies = {f"pmid:{copy}", "pmcid:PMC77"}
    why = {f"pmid:{left_out}": by} | dict.fromkeys(copies, "exact_duplicate")
    assert result() == result("exact") == ({"pmid:4", "pmcid:PMC77#body"}, why)
    kept = {"pmid:4", "pmcid:PMC77#body", *copies}
    assert result("keep") == (kept, {f"pmid:{left_out}": by})


def test_texts_of_an_excluded_article_are_all_listed(tmp_path):
    """Its other abstracts, too, whose copies are left out; and PubMed has no main abstract."""
    other = f"<OtherAbstract><AbstractText>{COPIED}</AbstractText></OtherAbstract>"
    inputs = [
        article_set(
            tmp_path / "a.xml",
            article(1, "one", "").replace("</MedlineCitation>", f"{other}</MedlineCitation>"),
            article(2, "two", COPIED.replace("bright", "dark")),
            article(3, "three"),
        ),
        str(tmp_path / "b.nxml"),
    ]
    pmid = '<article-id pub-id-type="pmid">1</article-id>'
    text = PMC_COPY.replace("</article-id>", f"</article-id>{pmid}").replace("bright", "dark")
    (tmp_path / "b.nxml").write_text(text)
    (tmp_path / "ids.txt").write_text("PMID\n1\n")
    selection = articles.Selection(other_abstracts="all")
    exclude = (str(tmp_path / "ids.txt"),)
    counts = make(inputs, tmp_path / "out", selection=selection, exclude=exclude).counts
    assert [d.id for d in read_documents(tmp_path / "out")] == ["pmid:3"]
    assert (counts["citation"], counts["other_abstract"]) == (3, 1)
    assert [(line["id"], line["reason"]) for line in left_out_of(tmp_path / "out")] == [
        ("pmid:1", "excluded_by_id"),
        ("pmid:1#other_abstract1", "excluded_by_id"),
        ("pmid:2", "exact_duplicate"),
        ("pmid:1", "excluded_by_id"),
        ("pmid:1#body", "excluded_by_id"),
    ]


@pytest.mark.parametrize("most", [1, 2])
def test_of_each_file_only_the_first_texts_are_read(tmp_path, most):
    """The abstract and the body of an article of PMC are two."""
    first = article_set(tmp_path / "a.xml", *(article(n, f"no {n}") for n in (1, 2, 3)))
    second = article_set(tmp_path / "b.xml", article(4, "no 4"))
    (tmp_path / "c.nxml").write_text(PMC_COPY)
    inputs = [first, second, str(tmp_path / "c.nxml")]
    counts = make(inputs, tmp_path / "out", max_articles=most, duplicates="keep").counts
    read = ["pmid:1", "pmid:2"][:most] + ["pmid:4"] + ["pmcid:PMC77", "pmcid:PMC77#body"][:most]
    assert [d.id for d in read_documents(tmp_path / "out")] == read
    assert (counts["documents"], counts["citation"]) == (len(read), most + 1)


def test_a_text_that_is_nearly_another_is_left_out_unless_only_exact_ones_are(tmp_path):
    words = [f"word{'abcdefghij'[n // 10]}{'abcdefghij'[n % 10]}" for n in range(60)]
    source = article_set(
        tmp_path / "a.xml",
        article(1, "first", " ".join(words)),
        article(2, "with another last word", " ".join([*words[:-1], "other"])),
        article(3, "with the same words", " ".join(words)),
    )

    def result(**settings):
        make([source], tmp_path / "out", overwrite=True, **settings)
        lines = {line["id"]: line["reason"] for line in left_out_of(tmp_path / "out")}
        return [d.id for d in read_documents(tmp_path / "out")], lines

    repeated = {"pmid:3": "exact_duplicate"}
    assert result() == (["pmid:1"], {"pmid:2": "near_duplicate"} | repeated)
    assert result(duplicates="exact") == (["pmid:1", "pmid:2"], repeated)


def test_an_abstract_in_pubmed_and_in_a_full_text_is_there_once(tmp_path):
    source = Path(input_files.shipped_files(".nxml")[0])
    (full,) = pmc.read_articles(source)
    abstract = " ".join(paragraph.text for paragraph in full.abstract)
    citation = article(full.pmid, full.title, html.escape(abstract))
    inputs = [article_set(tmp_path / "a.xml", citation), str(source)]
    manifest = make(inputs, tmp_path / "out")
    result = {d.id: d for d in read_documents(tmp_path / "out")}
    assert result.keys() == {f"pmid:{full.pmid}", f"pmid:{full.pmid}#body"}
    assert {d.article for d in result.values()} == {f"pmid:{full.pmid}"}
    assert result[f"pmid:{full.pmid}"].source == "a.xml"
    assert manifest.counts["left_out"] == {"in_pubmed": 1}

    # Without its PMID the article is another; the abstract's text is not.
    copy = tmp_path / "b.nxml"
    copy.write_text(
        re.sub(r'<article-id pub-id-type="pmid">.*?</article-id>', "", source.read_text())
    )
    manifest = make([inputs[0], str(copy)], tmp_path / "copy")
    assert manifest.counts["documents"] == 2
    assert sum(manifest.counts["left_out"].values()) == 1


def left_out_of(output):
    return [json.loads(line) for line in (output / "left_out.jsonl").read_bytes().splitlines()]


def test_every_text_of_real_files_is_a_document_or_a_line(pubmed_slice, tmp_path, monkeypatch):
    # Sentences take nine tenths of the time, and are not what is counted here.
    monkeypatch.setattr(document_shards, "_splitter", lambda _: lambda texts: ([x] for x in texts))
    inputs = [*pubmed_slice.iterdir(), *reference.corpus("pubmed_xml").glob("*.xml*")]
    book = "<PubmedBookArticle><BookDocument><PMID>5</PMID></BookDocument></PubmedBookArticle>"
    (tmp_path / "extra.xml").write_text(
        f"<PubmedArticleSet>{article('N/A', 'no number')}{book}<PubmedArticle/>"
        f"{article(7, 'one')}{article(7, 'two')}</PubmedArticleSet>"
    )
    (tmp_path / "cut.xml").write_text("<PubmedArticleSet>")
    inputs += [tmp_path / "extra.xml", tmp_path / "cut.xml"]
    expected = Counter({"extra.xml#1": 1, "pmid:5": 1, "extra.xml#3": 1, "pmid:7": 2, "": 1})
    for path in inputs[:-2]:
        with safe_xml.open_file(path) as stream:
            for _, element in xml.etree.ElementTree.iterparse(stream):
                if element.tag == "MedlineCitation":
                    expected[f"pmid:{element.findtext('PMID')}"] += 1
    full_texts = [*reference.corpus("pmc_nxml").glob("*.gz"), *input_files.shipped_files(".nxml")]
    for path in full_texts:
        with safe_xml.open_file(path) as stream:
            given = xml.etree.ElementTree.parse(stream).iterfind("front/article-meta/article-id")
            ids = {id_.get("pub-id-type"): id_.text for id_ in given}
        id_ = f"pmid:{ids['pmid']}" if "pmid" in ids else f"doi:{ids['doi']}"
        expected.update([id_, f"{id_}#body"])

    pmid = ids["pmid"]
    (tmp_path / "benchmark.txt").write_text(f"{pmid}\n")
    inputs = [str(path) for path in (*inputs, *full_texts)]
    manifest = make(inputs, tmp_path / "out", exclude=[str(tmp_path / "benchmark.txt")])
    lines = left_out_of(tmp_path / "out")
    result = Counter(d.id for d in read_documents(tmp_path / "out"))
    assert result + Counter(line["id"] for line in lines) == expected
    assert not [count for count in result.values() if count != 1]
    reasons = Counter(line["reason"] for line in lines)
    assert reasons.pop("bad_input_file") == 1
    assert reasons == manifest.counts["left_out"]
    assert {"without_id", "book", "superseded", "without_text", "excluded_by_id"} <= reasons.keys()
    assert {line["file"] for line in lines} <= {os.path.basename(path) for path in inputs}
    by_id = {line["id"]: line for line in lines}
    assert by_id["extra.xml#1"] == {
        "id": "extra.xml#1",
        "file": "extra.xml",
        "reason": "without_id",
    }
    assert by_id["pmid:5"]["reason"] == "book"
    assert by_id[f"pmid:{pmid}#body"]["reason"] == "excluded_by_id"
    assert by_id[""]["file"] == "cut.xml" and "not well-formed" in by_id[""]["message"]


def test_lines_are_in_the_order_of_the_input_and_duplicates_have_one(tmp_path):
    other = "<OtherAbstract><AbstractText>It was shown of rats.</AbstractText></OtherAbstract>"
    once = article(1, "one").replace("</MedlineCitation>", f"{other * 3}</MedlineCitation>")
    inputs = [
        article_set(tmp_path / "a.xml", once, article(2, "two", "")),
        article_set(tmp_path / "b.xml", article(3, "three", "It was shown of rats.")),
        str(tmp_path / "c.xml"),
    ]
    (tmp_path / "c.xml").write_text("no XML")
    selection = articles.Selection(other_abstracts="all")
    make(inputs, tmp_path / "out", selection=selection)
    assert [tuple(line.values())[:3] for line in left_out_of(tmp_path / "out")] == [
        ("", "c.xml", "bad_input_file"),
        ("pmid:1#other_abstract2", "a.xml", "exact_duplicate"),
        ("pmid:1#other_abstract3", "a.xml", "exact_duplicate"),
        ("pmid:2", "a.xml", "without_text"),
        ("pmid:3", "b.xml", "exact_duplicate"),
    ]


def test_a_list_that_lacks_a_line_is_an_error(tmp_path, monkeypatch):
    source = article_set(tmp_path / "a.xml", article(1, "one"), article(2, "two", ""))
    monkeypatch.setattr(document_shards, "_left_out", lambda *_: [])
    with pytest.raises(DataError, match="2 texts were read, 1 written and 0 left out"):
        make([source], tmp_path / "out")
    assert not (tmp_path / "out/manifest.json").exists()


def test_nothing_left_is_an_error(tmp_path):
    empty = article_set(tmp_path / "a.xml", article(1, "title only", ""))
    with pytest.raises(DataError, match="nothing is left of 1 texts .* without_text 1"):
        make([empty], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_that_was_replaced_is_not_taken_for_the_one_that_was_read(tmp_path):
    source = article_set(tmp_path / "a.xml", article(1, "one"))
    with pytest.raises(BaseException, match="stop"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(document_shards, "write", stop)
        make([source], tmp_path / "out")
    assert list(tmp_path.glob("out/.work/*/input-*.json"))
    article_set(tmp_path / "a.xml", article(1, "two"))
    os.utime(source, ns=(1, 1))  # as many bytes at another time
    make([source], tmp_path / "out")
    (document,) = read_documents(tmp_path / "out")
    assert document.title == "two"


def test_a_small_file_that_goes_on_and_on_is_bad(tmp_path, monkeypatch):
    monkeypatch.setattr(input_units, "_MOST_HELD", 100)
    paths = [article_set(tmp_path / "a.xml", article(1, "one"))]
    paths.append(article_set(tmp_path / "b.xml", *(article(n, f"no {n}") for n in range(2, 9))))
    manifest = make(paths, tmp_path / "out")
    assert [d.id for d in read_documents(tmp_path / "out")] == ["pmid:1"]
    (problem,) = manifest.problems
    assert problem.startswith("b.xml: its text has more than 100 characters")


def test_finished_output_is_reused_or_defended(tmp_path, capsys):
    source = article_set(tmp_path / "a.xml", article(1, "one"))
    make([source], tmp_path / "out")
    before = (tmp_path / "out/manifest.json").stat().st_mtime_ns
    make([source], tmp_path / "out")
    assert "is complete and is reused" in capsys.readouterr().out
    assert (tmp_path / "out/manifest.json").stat().st_mtime_ns == before
    with pytest.raises(DataError, match="shard_megabytes=2.0, not 3.0.*--overwrite"):
        make([source], tmp_path / "out", shard_megabytes=3.0)
    article_set(tmp_path / "a.xml", article(1, "one, corrected"))
    with pytest.raises(DataError, match="inputs="):
        make([source], tmp_path / "out")
    make([source], tmp_path / "out", shard_megabytes=3.0, overwrite=True)
    (document,) = read_documents(tmp_path / "out")
    assert document.title == "one, corrected"
    # Nothing of the earlier run is left.
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "documents-00000-00000.tfrecord",
        "left_out.jsonl",
        "manifest.json",
    }


def test_the_command_teaches_and_reports(command, fails_in_one_sentence, pubmed_slice, tmp_path):
    help_ = command("documents", "--help").stdout
    for word in ("python -m data_prep.documents --output=", "--input", "--workers", "strict"):
        assert word in help_

    gone = command("documents", "--input=gone.xml.gz", f"--output={tmp_path}/out")
    assert "gone.xml.gz does not exist" in fails_in_one_sentence(gone)
    typo = command(
        "documents", f"--input={pubmed_slice}", f"--output={tmp_path}/out", "--shard_megabyte=3"
    )
    assert "did you mean --shard_megabytes?" in fails_in_one_sentence(typo)
    bad = tmp_path / "bad.xml"
    bad.write_text("<PubmedArticleSet>")
    done = command("documents", f"--input={bad}", f"--output={tmp_path}/out", "--workers=1")
    assert "bad.xml: it is not well-formed XML" in fails_in_one_sentence(done)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("between", ["flags", "commas"])
def test_all_inputs_of_a_command_line_are_read(
    command, pubmed_slice, documents_folder, tmp_path, between
):
    old, recent = sorted(map(str, pubmed_slice.iterdir()))
    inputs = [f"--input={old},{recent}"]
    if between == "flags":
        inputs = [f"--input={old}", f"--input={recent}"]
    done = command("documents", *inputs, f"--output={tmp_path / 'out'}", "--workers=1")
    assert done.returncode == 0, done.stderr
    counts = read_manifest(tmp_path / "out", "documents").counts
    assert counts == read_manifest(documents_folder, "documents").counts
    assert counts["citation"] == 300
    sources = {x.source for x in read_documents(tmp_path / "out")}
    assert sources == {os.path.basename(old), os.path.basename(recent)}


@pytest.fixture(scope="module")
def undisturbed(command, pubmed_slice, documents_folder, files_of, tmp_path_factory):
    """Returns the files that one worker made, and two."""
    output = tmp_path_factory.mktemp("two") / "documents"
    done = command(
        "documents",
        f"--input={pubmed_slice}",
        "--shard_megabytes=0.07",
        "--workers=2",
        f"--output={output}",
    )
    assert done.returncode == 0, done.stderr
    assert "Beam" not in done.stderr and "WARNING" not in done.stderr
    assert files_of(output) == files_of(documents_folder)
    return files_of(output)


def test_what_a_worker_cannot_write_is_one_sentence(pubmed_slice, tmp_path, fails_in_one_sentence):
    """Fails where no file may be so large, as on a disk that is full."""
    command = (
        f"ulimit -f 30; exec {sys.executable} -m data_prep.documents --workers=2 "
        f"--input={pubmed_slice} --output={tmp_path / 'documents'}"
    )
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    line = fails_in_one_sentence(done)
    assert re.search(
        r"/documents/\.work/\w+/unit-\S+\.tfrecord cannot be used: File too large\.$", line
    )


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["input-*.json", "documents-*.json"])
def test_a_killed_run_ends_with_the_same_bytes(
    command, pubmed_slice, undisturbed, files_of, tmp_path, moment
):
    flags = [f"--input={pubmed_slice}", "--shard_megabytes=0.07", "--workers=1"]
    output = tmp_path / "killed"
    process = subprocess.Popen(
        [sys.executable, "-m", "data_prep.documents", *flags, f"--output={output}"],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not list(output.glob(f".work/*/{moment}")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (output / "manifest.json").exists()
    finished = sorted(output.glob(f".work/*/{moment}"))
    assert len(finished) < 4, "it was killed too late to show anything"
    with pytest.raises(DataError, match="no finished documents"):
        read_manifest(output, "documents")

    # What was finished is not done again: neither the shards, nor the units that were read.
    kept = [output / path.stem for path in finished if "documents" in path.name]
    kept += list(output.glob(".work/*/unit-*.bands.npy")) if not kept else []
    times = {path: path.stat().st_mtime_ns for path in kept}
    (output / "documents-00003-00004.tfrecord.1.tmp").write_bytes(b"half of a shard")
    watched = {}
    process = subprocess.Popen(
        [sys.executable, "-m", "data_prep.documents", *flags, f"--output={output}"],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None:
        for path in kept:
            if path.exists():
                watched[path] = path.stat().st_mtime_ns
        time.sleep(0.005)
    assert process.returncode == 0, process.stderr.read()
    assert files_of(output) == undisturbed
    assert kept and watched == times
