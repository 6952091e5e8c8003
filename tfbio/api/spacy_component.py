"""The spaCy component `tfbio_ner`, which finds entities with a fine-tuned model.

  import spacy

  nlp = spacy.blank("en")
  nlp.add_pipe("tfbio_ner", config={"model": "out/bc5cdr_chem"})
  doc = nlp("Imatinib inhibits BCR-ABL.")

spaCy imports this module by an entry point whenever it makes a pipeline, so it must import quickly:
TensorFlow and the rest of tfbio come with the first text. docs/spacy.md is the manual.
"""

# Annotations are no strings here: spaCy checks a component's settings by them.
import os
import pathlib
import shutil
import sys
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import srsly
from spacy import util
from spacy.language import Language
from spacy.tokens import Doc, Span, SpanGroup

from tfbio.base import file_paths, messages, storage
from tfbio.base.errors import UserError

if TYPE_CHECKING:
    from tfbio.api.loading import Model
    from tfbio.api.results import Entity

_EXAMPLE = 'nlp.add_pipe("tfbio_ner", config={"model": "out/bc5cdr_chem"})'


class _Fork:
    """Knows whether this process was forked from one that had imported TensorFlow.

    TensorFlow's threads are not in such a process, and its first computation waits for them without
    end.
    """

    had_tensorflow = False

    @classmethod
    def note(cls) -> None:
        """Finds out, when a new process begins."""
        cls.had_tensorflow = "tensorflow" in sys.modules


os.register_at_fork(after_in_child=_Fork.note)


@Language.factory(
    "tfbio_ner",
    assigns=["doc.spans", "doc.ents"],
    default_config={
        "model": None,
        "spans_key": "tfbio",
        "set_ents": True,
        "overwrite_ents": False,
        "alignment_mode": "expand",
    },
)
class TfbioNer:
    """Finds entities in spaCy's documents with a model that `tfbio.load` loads.

    `doc.spans["tfbio"]` gets a span for each entity, which covers all tokens that the entity
    touches. Its `attrs` hold, in the same order, "offsets", pairs [start, end) in characters of
    `doc.text`, and "scores". `doc._.tfbio_entities()` returns the entities with these exact
    offsets. `doc.ents` gets those that fit its rules: entities end where tokens end, and none
    overlap. "moved" in `attrs` counts those with other offsets there, "dropped" those that are not
    there.

    The model is loaded for the first text.

    Args:
      nlp: the pipeline, which is not kept.
      name: the component's name in the pipeline.
      model: a path as `tfbio.load` takes it, of a model that finds entities; or a dict with this
        "path" and with "settings", changed settings as `tfbio.load` takes them, such as
        {"run.eval_batch_size": 8}. A pipeline that was saved has a copy of the model, which is
        used instead.
      spans_key: the name of the entities in `doc.spans`.
      set_ents: False to leave `doc.ents` as it is.
      overwrite_ents: True to remove what overlaps the new entities in `doc.ents`; by default the
        entities that are there stay, and new ones that overlap them are left out.
      alignment_mode: how `doc.ents` gets an entity that begins or ends inside a token: "expand"
        takes all tokens that it touches, "contract" those that lie in it whole, and "strict" leaves
        it out.

    Raises:
      UserError: no model is given, or a dict with other keys.
    """

    def __init__(
        self,
        nlp: Language,
        name: str,
        model: str | dict[str, Any] | None,
        spans_key: str,
        set_ents: bool,
        overwrite_ents: bool,
        alignment_mode: Literal["strict", "contract", "expand"],
    ):
        given: dict[str, Any] = model if isinstance(model, dict) else {"path": model}
        if not given.get("path"):
            raise UserError(f"{name} needs a model: write {_EXAMPLE}, with the path of yours.")
        if unknown := given.keys() - {"path", "settings"}:
            raise UserError(
                f"{name}: the model has {messages.quoted(sorted(unknown))}, and takes path and "
                "settings alone."
            )
        self.name = name
        self.spans_key = spans_key
        self.set_ents = set_ents
        self.overwrite_ents = overwrite_ents
        self.alignment_mode = alignment_mode
        self._path = file_paths.absolute(given["path"])
        self._is_unpacked = False
        self._settings: dict[str, Any] = given.get("settings", {})
        self._model: Model | None = None
        self._has_warned = False
        self._handle_error: Callable = util.raise_error

    def __getstate__(self) -> dict:
        """Leaves out the model, which another process loads when it has a text.

        Files that `from_bytes` unpacked may not outlive this component, and are pickled, too.
        """
        files = _packed(self._path) if self._is_unpacked else None
        return {**self.__dict__, "_model": None, "files": files}

    def __setstate__(self, state: dict) -> None:
        """Unpacks the files, if there are any, to a folder of its own."""
        files = state.pop("files")
        self.__dict__.update(state)
        if files is not None:
            self.from_bytes(files)

    def load(self) -> "Model":
        """Loads the model, unless it is loaded, and returns it.

        Call it to find mistakes before the first text.

        Raises:
          UserError: the path has no model that finds entities, or this process was forked from one
            with TensorFlow.
        """
        if _Fork.had_tensorflow:
            raise UserError(
                f"{self.name}: this process was forked from one that has TensorFlow, which does not"
                ' work in both: call multiprocessing.set_start_method("spawn") at the start of the '
                "program, before nlp.pipe(..., n_process=2)."
            )
        if self._model is None:
            from tfbio.api import loading

            model = loading.load(self._path, self._settings)
            if model.predicts != "entities":
                raise UserError(
                    f"{self.name}: {self._path} holds no model that finds entities in documents: "
                    "give one that was fine-tuned to tag words."
                )
            self._model = model
        return self._model

    def __call__(self, doc: Doc) -> Doc:
        """Finds the entities of a document, and returns the same document with them."""
        self._annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Finds the entities of many documents, `batch_size` of them at a time.

        Args:
          stream: the documents.
          batch_size: how many are read, and then computed together.

        Yields:
          The same documents with their entities, in their order.
        """
        for docs in util.minibatch(stream, size=batch_size):
            try:
                self._annotate(docs)
            except Exception as error:
                self._handle_error(self.name, self, docs, error)
            else:
                yield from docs

    def set_error_handler(self, error_handler: Callable) -> None:
        """Sets the function that deals with documents that fail; see `nlp.set_error_handler`."""
        self._handle_error = error_handler

    def get_error_handler(self) -> Callable:
        """Returns the function that deals with documents that fail."""
        return self._handle_error

    def _annotate(self, docs: Sequence[Doc]) -> None:
        """Sets the spans and entities of documents."""
        found = self.load()([doc.text for doc in docs], batch_size=len(docs))
        for doc, entities in zip(docs, found, strict=True):
            attrs: dict = {
                "offsets": [[entity.start, entity.end] for entity in entities],
                "scores": [None if x.score is None else float(x.score) for x in entities],
            }
            if self.set_ents:
                attrs["moved"], attrs["dropped"] = self._set_ents(doc, entities)
            spans = [span for x in entities if (span := _span(doc, x, "expand"))]
            group = SpanGroup(doc, name=self.spans_key, spans=spans, attrs=attrs)
            doc.spans[self.spans_key] = group

    def _set_ents(self, doc: Doc, entities: Sequence["Entity"]) -> tuple[int, int]:
        """Sets `doc.ents`, and returns how many entities were moved, and how many dropped."""
        aligned: dict[Span, Entity] = {}  # two with the same tokens and label are one
        for entity in entities:
            if span := _span(doc, entity, self.alignment_mode):
                aligned.setdefault(span, entity)
        new = util.filter_spans(aligned)
        before = [span for span in doc.ents if span not in new]
        if self.overwrite_ents:
            before = _without_overlaps(before, new)
        else:
            new = _without_overlaps(new, before)
        doc.ents = [*before, *new]
        exact = sum((x.start_char, x.end_char) == (aligned[x].start, aligned[x].end) for x in new)
        dropped = len(entities) - len(new)
        if dropped and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"{self.name}: doc.ents has no place for {dropped} of the {len(entities)} entities "
                f'of a document; doc.spans["{self.spans_key}"] has all of them, and its attrs count'
                ' the "dropped" ones of each document. This warning comes once.',
                stacklevel=2,
            )
        return len(new) - exact, dropped

    def to_disk(self, path: str | os.PathLike, *, exclude: Iterable[str] = ()) -> None:
        """Writes a copy of the model, with one trial if it is a run; returns nothing.

        Args:
          path: the folder, which is replaced.
          exclude: not used; spaCy gives it to every component.
        """
        from tfbio.weights import checkpoint_source, fine_tuned, fine_tuned_writer

        model = self.load()
        predictor = model.predictor
        assert predictor is not None  # a model that finds entities has one
        settings = fine_tuned.read_settings(model.path)
        # The vocabulary is found in the run of the trial.
        run = checkpoint_source.run_of(model.path)
        tuned = fine_tuned.FineTuned(
            run, predictor.inference.model, settings, predictor.calibration
        )
        # The folder may be the one that the model was loaded from.
        unfinished = storage.unfinished_folder(path)
        fine_tuned_writer.write_trial(unfinished, tuned)
        shutil.rmtree(path, ignore_errors=True)
        os.rename(unfinished, path)

    def from_disk(self, path: str | os.PathLike, *, exclude: Iterable[str] = ()) -> "TfbioNer":
        """Uses the copy of a model that `to_disk` wrote, and returns the component.

        Args:
          path: the folder.
          exclude: not used.
        """
        self._path, self._model, self._is_unpacked = file_paths.absolute(path), None, False
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Returns the files of `to_disk` as bytes."""
        with tempfile.TemporaryDirectory() as parent:
            folder = pathlib.Path(parent, "model")
            self.to_disk(folder)
            return _packed(folder)

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "TfbioNer":
        """Uses the copy of a model that `to_bytes` returned, and returns the component.

        Its files are in a temporary folder as long as the component is.

        Raises:
          UserError: the name of a file leads out of that folder.
        """
        folder = tempfile.mkdtemp(prefix="tfbio_ner_")
        weakref.finalize(self, _remove_own, folder, os.getpid())
        for name, content in srsly.msgpack_loads(bytes_data).items():
            file = pathlib.Path(folder, name)
            # Bytes may come from anyone.
            if ".." in file.parts or not file.is_relative_to(folder):
                raise UserError(
                    f"{self.name}: the bytes have a file whose name leads out of its folder, "
                    f"{name!r}, which is refused."
                )
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        self.from_disk(folder)
        self._is_unpacked = True
        return self


def _remove_own(folder: str, maker: int) -> None:
    """Removes a folder in the process that made it: one that was forked from it may end before."""
    if os.getpid() == maker:
        shutil.rmtree(folder, ignore_errors=True)


def _packed(folder: str | os.PathLike) -> bytes:
    """Returns the files of a folder as bytes."""
    files = sorted(path for path in pathlib.Path(folder).rglob("*") if path.is_file())
    return srsly.msgpack_dumps(
        {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
    )


def _span(doc: Doc, entity: "Entity", alignment_mode: str) -> Span | None:
    """Returns the tokens of an entity, or None if there are none."""
    return doc.char_span(
        entity.start, entity.end, label=entity.label, alignment_mode=alignment_mode
    )


def _without_overlaps(spans: Iterable[Span], others: Iterable[Span]) -> list[Span]:
    """Returns the spans that share no token with one of the others."""
    taken = {token for other in others for token in range(other.start, other.end)}
    return [span for span in spans if taken.isdisjoint(range(span.start, span.end))]


def _entities_of(doc: Doc, key: str = "tfbio") -> list["Entity"]:
    """Returns the entities that `tfbio_ner` found in a document, with their exact offsets.

    Args:
      doc: the document.
      key: the component's `spans_key`.

    Returns:
      A list of `Entity`, as a call of the model returns it.

    Raises:
      KeyError: the component has not seen the document.
      UserError: `doc.spans` has been changed since, or the document was joined from others or
        read from JSON.
    """
    from tfbio.api.results import Entity

    group = doc.spans[key]
    offsets, scores = (group.attrs.get(name, ()) for name in ("offsets", "scores"))
    if not len(group) == len(offsets) == len(scores):
        raise UserError(
            f'doc.spans["{key}"] is no longer as tfbio_ner has set it, so the offsets of its spans '
            "are not known: put what you choose of them under another key. Doc.from_docs and "
            "Doc.from_json lose the offsets: call the component on the new document, or save "
            "documents in a DocBin."
        )
    return [
        Entity(doc.text[start:end], span.label_, start, end, score)
        for span, (start, end), score in zip(group, offsets, scores, strict=True)
    ]


Doc.set_extension("tfbio_entities", method=_entities_of, force=True)
