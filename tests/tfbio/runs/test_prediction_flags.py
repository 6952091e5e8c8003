"""The settings of a prediction are checked before the model is read."""

import types

import pytest
from absl import flags

from tfbio.base.config import ConfigError
from tfbio.runs import annotation, prediction_flags
from tfbio.task_types import new_text_settings

# A value of each that is not its default.
VALUES = {
    "run.precision": "float32",
    "run.optimize_for": "cpu",
    "run.eval_batch_size": 7,
    "run.pack": "false",
    "run.fixed_shapes": "always",
    "sequence_length": 64,
    "question_answering.beam_size": 5,
    "question_answering.doc_stride": 64,
    "question_answering.max_query_length": 16,
    "question_answering.n_best_size": 7,
    "question_answering.max_answer_length": 7,
}


def test_all_settings_of_a_prediction_may_be_given():
    assert sorted(VALUES) == sorted(new_text_settings.SETTINGS)
    prediction_flags.check_settings([f"{name}={value}" for name, value in VALUES.items()])


@pytest.mark.parametrize(
    "text", ["run.precison=float32", "run.precision=float16", "question_answering.beam_size=no"]
)
def test_a_mistake_in_them_is_refused(text):
    with pytest.raises(ConfigError):
        prediction_flags.check_settings([text])


def test_what_a_trained_model_keeps_is_refused():
    with pytest.raises(ConfigError, match="^--set: seed is for training"):
        prediction_flags.check_settings(["seed=1"])


class Flags(dict):
    """The values of flags by their names, those that are not given with their defaults."""

    defaults = {
        "model": "model",
        "input": ["texts"],
        "output_dir": "out",
        "overwrite": False,
        "set": [],
        "format": "jsonl",
        "gzip": False,
        "runner": "local",
        "processes": 0,
        "tpu": "",
        "strategy": "auto",
        "cpu_devices": 1,
        "mesh": None,
    }

    def __getattr__(self, name):
        return self.get(name, self.defaults[name])

    def __getitem__(self, name):
        return types.SimpleNamespace(value=getattr(self, name), default=self.defaults[name])


@pytest.mark.parametrize(
    "given, processes",
    [
        ({}, 0),
        ({"processes": 3}, 3),
        ({"tpu": "local"}, 1),
        ({"strategy": "one_device"}, 1),
        ({"cpu_devices": 2}, 1),
        ({"mesh": "1x2"}, 1),
    ],
)
def test_devices_that_flags_name_are_for_one_process(given, processes, monkeypatch):
    """Without such a flag 0 lets `annotate` choose."""
    seen = []
    monkeypatch.setattr(prediction_flags, "FLAGS", Flags(given))
    monkeypatch.setattr(annotation, "annotate", lambda *_, **named: seen.append(named["processes"]))
    prediction_flags.annotate(lambda: None, [])
    assert seen == [processes]


def test_a_runner_in_a_flag_file_has_beams_flags_too(tmp_path, monkeypatch):
    values = flags.FlagValues()
    flags.DEFINE_string("runner", "local", "", flag_values=values)
    monkeypatch.setattr(prediction_flags, "FLAGS", values)
    seen = []
    monkeypatch.setattr("data_prep.running.command.leave_beam_flags", seen.append)
    (tmp_path / "flags").write_text("--runner=FlinkRunner\n--parallelism=4\n")
    argv = ["predict", f"--flagfile={tmp_path / 'flags'}"]
    prediction_flags.leave_beam_flags(argv)
    assert seen == [argv]
    with pytest.raises(flags.UnrecognizedFlagError):
        prediction_flags.leave_beam_flags(["predict", "--parallelism=4"])
