"""What `run_pretraining.py` saved, read back; and what others did, by their own modules."""

import dataclasses
import functools
import glob
import json
import os
from types import ModuleType

import tensorflow as tf

from tfbio.base import storage
from tfbio.base.cli import UserError
from tfbio.base.config import ConfigError, build
from tfbio.models import encoder_cost
from tfbio.models.encoder import Encoder
from tfbio.models.encoder_config import TRAINING_ONLY, EncoderConfig
from tfbio.objectives.electra import Electra
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.text import vocabularies
from tfbio.weights import hugging_face, tensorflow1, weight_files

# What the weights of a run can be used for depends on these settings; not on how it was trained.
MODEL_SETTINGS = (
    "objective",
    "encoder",
    "generator",
    "untied_generator",
    "untied_generator_embeddings",
    "uniform_generator",
    "lower_case",
)
# The weights in a trial's folder of a fine-tuning run.
TRIAL_WEIGHTS = "model"


class CheckpointError(UserError):
    """A checkpoint that is missing, or that is not of the model it is wanted for."""


def run_of(folder: str) -> str:
    """The folder with the settings and the vocabulary of the weights in `folder`.

    It is the same for a pretraining run; a trial of a fine-tuning run has them one above, and the
    prefix of a TensorFlow 1 checkpoint beside it.
    """
    if storage.at(f"{folder}.index").is_file():
        return os.path.dirname(folder) or "."
    is_trial = storage.at(folder, f"{TRIAL_WEIGHTS}.index").is_file()
    if is_trial and tensorflow1.find(folder) is None:
        return os.path.dirname(folder.rstrip("/")) or "."
    return folder


def newest_weights(folder: str) -> str:
    """The newest checkpoint in `folder`: a run's `--model_dir`, or a trial of a fine-tuning run.

    Raises:
      CheckpointError: there is none.
    """
    if (prefix := tensorflow1.find(folder)) is not None:
        return prefix
    if storage.at(f"{folder}.index").is_file():
        return folder
    if run_of(folder) != folder:
        return os.path.join(folder, TRIAL_WEIGHTS)
    _, there = _list(folder)
    if not there:
        raise CheckpointError(
            f"{folder} holds no checkpoint: run run_pretraining.py first (to fine-tune, the folder "
            "trial_SEED of a run_finetuning.py run will also do)."
        )
    return there[-1]


def reader_of(folder: str) -> ModuleType | None:
    """The module that reads what others saved in `folder`; None: a run did."""
    if tensorflow1.find(folder) is not None:
        return tensorflow1
    return hugging_face if hugging_face.is_one(folder) else None


def read_settings(folder: str) -> dict:
    """The `config.json` of the run whose checkpoints are in `folder` (see `run_of`).

    Of a folder of Hugging Face's: `encoder` and `lower_case`, in the same form, and `family`. Of a
    checkpoint of TensorFlow 1 also what it tells of the objective, see `tensorflow1.read_settings`.

    Raises:
      CheckpointError: if there is none, or it cannot be read.
      HuggingFaceError: see `hugging_face.read_settings`.
      TensorFlow1Error: see `tensorflow1.read_settings`.
    """
    reader = reader_of(folder)
    if reader is not None:
        return reader.read_settings(folder)
    path = storage.at(run_of(folder), "config.json")
    if not path.is_file():
        raise CheckpointError(
            f"{folder} holds no config.json: give the --model_dir of a run_pretraining.py run (to "
            "fine-tune, also a trial_SEED of run_finetuning.py), or a BERT, ELECTRA, RoBERTa or "
            "ALBERT of Hugging Face's or of TensorFlow 1's."
        )
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not valid JSON: {error}.") from error
    if not isinstance(settings, dict) or not isinstance(settings.get("encoder"), dict):
        raise CheckpointError(
            f"{path} names no encoder, as a run of run_pretraining.py does, and no model_type, as "
            "a model of Hugging Face's: give the folder of one of both."
        )
    if not isinstance(settings.get("lower_case"), bool):
        raise CheckpointError(
            f"{path} has lower_case = {json.dumps(settings.get('lower_case'))}: it must say true "
            "or false, as the run wrote it."
        )
    # A setting that is newer than the run had what is now its default.
    settings["encoder"] = {**dataclasses.asdict(EncoderConfig()), **settings["encoder"]}
    return settings


def read_encoder_config(folder: str, with_weights: bool = True) -> EncoderConfig:
    """The shape of the encoder whose checkpoints are in `folder`.

    Args:
      folder: see `restore_encoder`.
      with_weights: whether its weights are wanted, which must be there; see `require_weights`.

    Raises:
      CheckpointError: see `read_settings` and `require_weights`.
    """
    path = storage.at(run_of(folder), "config.json")
    try:
        shape = build(EncoderConfig, read_settings(folder)["encoder"], path)
    except ConfigError as error:
        raise CheckpointError(str(error)) from error
    if with_weights:
        require_weights(folder, shape)
    return shape


def require_weights(folder: str, shape: EncoderConfig) -> None:
    """Refuses weights that cannot be of an encoder of this shape, before memory is taken for it.

    So a `config.json` cannot ask for more memory than the files beside it have bytes.

    Raises:
      CheckpointError: there are none, or too few.
      WeightFileError: see `weight_files.open_all`.
    """
    reader = reader_of(folder)
    if reader is hugging_face:
        paths = {tensor.path for tensor in weight_files.open_all(folder).values()}
    else:
        paths = storage.find(f"{glob.escape(newest_weights(folder))}.data-*")
    # No number takes less than float16's 2 bytes.
    if 2 * encoder_cost.encoder_parameters(shape) > sum(map(storage.size, paths)):
        if reader is None:
            find_newest(folder, repair=False)  # which names what is damaged, and the remedy
        raise CheckpointError(
            f"{storage.at(run_of(folder), 'config.json')} describes a larger encoder than the "
            "weights beside it can be of: one of both is not complete, or of another model; get "
            "them again."
        )


def family_of(settings: dict) -> str:
    """The family of Hugging Face's that an encoder is of, as `model_type` calls it.

    It is what it came in as. Of encoders that were made here, an ELECTRA is one; others are what
    alone can be so, or BERT's.

    Args:
      settings: see `read_settings`.
    """
    encoder = settings["encoder"]
    if "family" in settings:
        return settings["family"]
    if encoder["share_layers"]:
        return "albert"
    if encoder["position_offset"]:
        return "roberta"
    is_bert = settings.get("objective") == "mlm"
    return "bert" if is_bert and encoder["embedding_size"] == encoder["hidden_size"] else "electra"


def pretraining_config(settings: dict, folder: str = "") -> PretrainingConfig:
    """The configuration in what a pretraining run wrote to `config.json` in `folder`."""
    known = PretrainingConfig.__dataclass_fields__
    values = {name: value for name, value in settings.items() if name in known}
    try:
        return build(PretrainingConfig, values, os.path.join(folder, "config.json"))
    except ConfigError as error:
        raise CheckpointError(str(error)) from error


def _list(folder: str) -> tuple[object | None, list[str]]:
    """TensorFlow's list of a run's checkpoints, None: there is none; and those that are there.

    Raises:
      CheckpointError: the list is damaged, or all in it were removed.
    """
    index = os.path.join(folder, "checkpoint")
    try:
        state = tf.train.get_checkpoint_state(folder)
    except ValueError:
        state = None
    if state is None:
        found = tf.io.gfile.glob(os.path.join(folder, "ckpt-*.index"))
        if len(found) == 1 and not tf.io.gfile.exists(index):
            # Its run was killed after it had saved for the first time, before it noted that.
            path = os.path.join(folder, os.path.basename(found[0]).removesuffix(".index"))
            written = tf.io.gfile.stat(found[0]).mtime_nsec / 1e9
            state = tf.compat.v1.train.generate_checkpoint_state_proto(
                folder, path, [path], [written], last_preserved_timestamp=written - 1
            )
            # Which are relative to the folder where that is.
            state.model_checkpoint_path, state.all_model_checkpoint_paths[0] = path, path
            return state, [path]
        if found or tf.io.gfile.exists(index):
            raise CheckpointError(
                f"{index}, which names the newest checkpoint, is missing or damaged: write it as "
                "the line 'model_checkpoint_path: \"ckpt-N\"', or give another --model_dir."
            )
        return None, []
    newest = state.model_checkpoint_path
    known = dict.fromkeys([*state.all_model_checkpoint_paths, newest])
    there = [path for path in known if tf.io.gfile.exists(f"{path}.index")]
    if not there:
        raise CheckpointError(
            f"{newest} is gone, and there is no older checkpoint: to start anew, remove {index}."
        )
    if there[-1] != newest:
        _say_once(f"{newest} is gone: the newest checkpoint there is is {there[-1]}.")
    return state, there


@functools.cache
def _say_once(line: str) -> None:
    """However often the same is found in a process."""
    print(line, flush=True)


def find_newest(folder: str, repair: bool = True) -> str | None:
    """The newest checkpoint of a run that is to go on, read once to its end; None: there is none.

    One that was removed is named, and passed over for the one before it. With `repair`, the list
    of checkpoints in `folder` is corrected.

    Raises:
      CheckpointError: it is damaged, or all were removed.
    """
    state, there = _list(folder)
    if state is None:
        return None
    path = there[-1]
    try:
        reader = tf.train.load_checkpoint(path)
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)  # of which each has a checksum
    except (tf.errors.OpError, ValueError, RuntimeError, IndexError) as error:
        remedy = f"to start anew, remove {path}.* and {os.path.join(folder, 'checkpoint')}"
        if len(there) > 1:
            remedy = f"remove {path}.*, and the run continues from {there[-2]}"
        raise CheckpointError(f"{path} is damaged ({_first_line(error)}): {remedy}.") from error
    is_listed = path == state.model_checkpoint_path
    is_listed &= tf.io.gfile.exists(os.path.join(folder, "checkpoint"))
    if repair and not is_listed:
        times = state.all_model_checkpoint_timestamps
        times = dict(zip(state.all_model_checkpoint_paths, times, strict=False))
        tf.compat.v1.train.update_checkpoint_state(
            folder,
            path,
            there,
            all_model_checkpoint_timestamps=[times.get(path, 0.0) for path in there],
            last_preserved_timestamp=state.last_preserved_timestamp,
        )
    return path


def remove_half_written(folder: str) -> None:
    """Removes what TensorFlow left of a checkpoint, which is as large, when it was killed.

    For who alone writes there.
    """
    for pattern in ("ckpt-*_temp/*", "checkpoint.tmp*"):
        for path in storage.find(os.path.join(glob.escape(folder), pattern)):
            storage.at(path).unlink(missing_ok=True)
    if not storage.is_remote(folder):
        for path in glob.glob(os.path.join(glob.escape(folder), "ckpt-*_temp")):
            os.rmdir(path)


def require_same_model(folder: str, settings: dict) -> None:
    """Refuses the run in `folder` if its weights do not make the model of these settings.

    Args:
      folder: a run's `--model_dir`.
      settings: as a run writes them to `config.json`.

    Raises:
      CheckpointError: it is of another model or vocabulary, or no run.
    """
    reader = reader_of(folder)
    if reader is not None:
        before = _like_a_run(reader, folder, settings)
    else:
        before = read_settings(folder)
        wanted = pretraining_config(settings)
        if wanted.has_generator and not pretraining_config(before, folder).has_generator:
            _require_warmup(folder, wanted)
            # Of it only these are wanted, as of a discriminator from elsewhere.
            own = ("encoder", "lower_case", "vocab_sha256")
            before = settings | {name: before.get(name) for name in own}
    if before.get("vocab_sha256") != settings["vocab_sha256"]:
        raise CheckpointError(
            f"{folder} was trained with another vocabulary than that of the examples: make "
            "examples with the one in that folder."
        )
    had, wanted = _of_model(before), _of_model(settings)
    for name in MODEL_SETTINGS:
        if had[name] != wanted[name]:
            raise CheckpointError(
                f"{folder} holds another model than the settings ask for: its {name} is "
                f"{had[name]}, not {wanted[name]}."
            )


def _require_warmup(folder: str, wanted: PretrainingConfig, remedy: str = "") -> None:
    """Refuses what holds no generator, unless a new one first learns alone."""
    if not wanted.generator_warmup_steps:
        raise CheckpointError(
            f"{folder} holds no generator: {remedy}give --set generator_warmup_steps=N, and a new "
            "one first learns alone."
        )


def _of_model(settings: dict) -> dict:
    """`MODEL_SETTINGS`; one that is newer than the run had what is now its default."""
    config = pretraining_config(settings)
    found = {**dataclasses.asdict(config), "lower_case": settings["lower_case"]}
    # Not its share of the encoder: 1/3 is written in many ways.
    found["generator"] = _shape(config.generator) if config.has_generator else None
    return {**found, "encoder": _shape(config.encoder)}


def _like_a_run(reader: ModuleType, folder: str, settings: dict) -> dict:
    """What `config.json` would say if a run with these settings had made another's model."""
    wanted = pretraining_config(settings)
    if wanted.has_generator:
        generator = reader.read_generator(folder)
        if generator is None:
            remedy = f"put one into it, in the folder {hugging_face.GENERATOR}, or "
            _require_warmup(folder, wanted, remedy if reader is hugging_face else "")
        elif _shape(generator) != _shape(wanted.generator):
            raise CheckpointError(
                f"{folder} holds another generator than the settings ask for, which is "
                f"{_shape(wanted.generator)}, not {_shape(generator)}."
            )
        elif reader is hugging_face:
            require_weights(os.path.join(folder, hugging_face.GENERATOR), generator)
    vocabulary = vocabularies.find_vocabulary(run_of(folder))
    own = reader.read_settings(folder)
    lower_case = own["lower_case"]
    if "vocab.json" in vocabularies.contents(vocabulary):  # byte-level BPE's
        lower_case = settings["lower_case"]  # which that kind does not look at
    return {
        **settings,
        # Which TensorFlow 1's tell.
        **{name: own[name] for name in MODEL_SETTINGS if "untied_" in name and name in own},
        "encoder": dataclasses.asdict(read_encoder_config(folder)),
        "lower_case": lower_case,
        "vocab_sha256": vocabularies.sha256_of(vocabulary),
    }


def _shape(encoder: EncoderConfig) -> dict:
    """What tells one encoder from another."""
    found = dataclasses.asdict(encoder)
    return {name: value for name, value in found.items() if name not in TRAINING_ONLY}


def restore_model(folder: str, model: tf.Module, optimizer: tf.Module | None = None) -> None:
    """Gives a whole pretraining model the weights of the newest checkpoint in `folder`.

    Where there is no generator, that of `model` stays as it is; and so does the discriminator's
    head, if there is only an encoder.

    Args:
      folder: a run's `--model_dir`, or what others saved, see `require_same_model`.
      model: `Electra` or `MaskedLanguageModel`, as the run had it.
      optimizer: gets its averages and its step; None: they are not wanted. Hugging Face's folders
        have none.

    Raises:
      CheckpointError: there is no checkpoint, or it is damaged, or of another shape.
      HuggingFaceError: see `hugging_face.restore_electra`.
      TensorFlow1Error: see `tensorflow1.restore_electra`.
    """
    reader = reader_of(folder)
    if reader is not None:
        if reader is tensorflow1 and optimizer is not None:
            tensorflow1.load(tensorflow1.find(folder), model, optimizer)
        elif isinstance(model, Electra):
            reader.restore_electra(folder, model)
        else:
            reader.restore_masked_language_model(folder, model)
        return
    path = folder
    if not storage.at(f"{folder}.index").is_file():
        path = find_newest(folder, repair=False)
    if path is None:
        raise CheckpointError(f"{folder} holds no checkpoint: run run_pretraining.py first.")
    had, saved = pretraining_config(read_settings(folder), run_of(folder)), model
    if isinstance(model, Electra) and model.config.has_generator and not had.has_generator:
        names = ["encoder"]
        if had.objective == "electra":
            names += ["discriminator_dense", "discriminator_output"]
        saved = tf.train.Checkpoint(**{name: getattr(model, name) for name in names})
    tree = tf.train.Checkpoint(model=saved)
    if optimizer is not None:
        optimizer._create_all_weights(model.trainable_variables)
        tree = tf.train.Checkpoint(model=model, optimizer=optimizer)
    _read(path, tree, "the settings")


def restore_encoder(
    folder: str, encoder: Encoder, head: tf.Module | None = None, new_tokens: int = 0
) -> None:
    """Gives `encoder` the discriminator's weights of the newest checkpoint in `folder`.

    Args:
      folder: a run's `--model_dir`, a trial of a fine-tuning run, a folder of Hugging Face's, or a
        checkpoint of TensorFlow 1.
      encoder: of the same shape.
      head: the head of a `TaskModel` of the same shape as the trial's, to restore it too.
      new_tokens: by how many the encoder has more token embeddings, whose last are left alone.

    Raises:
      CheckpointError: if there is no checkpoint, a damaged one, or one of another shape.
      HuggingFaceError: see `hugging_face.restore_encoder`.
      TensorFlow1Error: see `tensorflow1.restore_encoder`.
    """
    if new_tokens:
        size = encoder.config.vocab_size - new_tokens
        saved = Encoder(dataclasses.replace(encoder.config, vocab_size=size))
        restore_encoder(folder, saved, head)
        for variable, value in zip(encoder.variables, saved.variables, strict=True):
            if variable is encoder.embeddings.word:
                value = tf.concat([value, variable[size:]], axis=0)
            variable.assign(value)
        return
    reader = reader_of(folder)
    if reader is not None:
        reader.restore_encoder(folder, encoder)
        return
    path = newest_weights(folder)
    # The tree by which the trainers save: Checkpoint(model=Electra), or that of a TaskModel.
    parts = {"encoder": encoder} if head is None else {"encoder": encoder, "head": head}
    tree = tf.train.Checkpoint(model=tf.train.Checkpoint(**parts))
    _read(path, tree, f"an encoder of {encoder.config}")


def _text_head(settings: dict) -> str:
    """Returns `text_head` of the run that the settings are of; "" if it has none."""
    task_type = settings.get("trained_on", {}).get("task_type", "")
    return settings.get(task_type, {}).get("text_head", "")


def restore_pooler(folder: str, pooler: tf.Module) -> None:
    """Gives BERT's pooler the weights in `folder`, or leaves it as it is where there are none.

    Args:
      folder: as `restore_encoder` takes it. There are some in a BERT or ALBERT of Hugging Face's or
        of TensorFlow 1, in a pretraining run with `sentence_pair_head`, and in a trial that had
        `text_head` "tanh".
      pooler: of a `TaskModel` with that, whose encoder was restored from there.

    Raises:
      CheckpointError: its weights are damaged, or of another shape.
    """
    reader = reader_of(folder)
    if reader is not None:
        reader.restore_pooler(folder, pooler)
        return
    settings, model = read_settings(folder), tf.train.Checkpoint(pooler=pooler)
    if settings.get("sentence_pair_head"):
        model = tf.train.Checkpoint(sentence_pair_head=model)
    elif _text_head(settings) != "tanh":
        return
    _read(newest_weights(folder), tf.train.Checkpoint(model=model), "the pooler")


def _read(path: str, tree: tf.train.Checkpoint, what: str) -> None:
    """Gives everything in `tree` the weights of a checkpoint, which may have more.

    Args:
      path: the checkpoint, without ".index".
      tree: of the objects by which it was saved.
      what: named where the weights are those of something else.

    Raises:
      CheckpointError: it is damaged, or has other weights.
    """
    try:
        tree.read(path).expect_partial().assert_existing_objects_matched()
    except (tf.errors.OpError, RuntimeError, IndexError) as error:
        raise CheckpointError(
            f"{path} is damaged or not complete ({_first_line(error)}): copy it again, or take an "
            "older checkpoint."
        ) from error
    except (ValueError, AssertionError) as error:
        raise CheckpointError(f"{path} does not fit {what}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
