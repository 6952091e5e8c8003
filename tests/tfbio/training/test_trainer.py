"""The training loop, whose steps are counted here in place of being taken."""

import types

import pytest
import tensorflow as tf
import tf_keras as keras

from tfbio.base.errors import UserError
from tfbio.training.best_weights import BestWeights
from tfbio.training.profile import Profile
from tfbio.training.trainer import Trainer, naming_remedy


class Record:
    """Notes what a trainer does, in order."""

    def __init__(self):
        self.events = []
        self.checkpointer = types.SimpleNamespace(save=lambda: self.events.append("save"))
        self.preemption = types.SimpleNamespace(sent=False)

    def trainer(self, **changes):
        curves, eval_curves = (
            types.SimpleNamespace(
                write=lambda step, figures, name=name: self.events.append((name, step, figures))
            )
            for name in ("curves", "eval_curves")
        )
        settings = {"steps_per_loop": 10, "eval_every": 25, "save_every": 30} | changes
        return Trainer(
            checkpointer=self.checkpointer,
            preemption=self.preemption,
            profile=settings.pop("profile", Profile("", None)),
            curves=curves,
            eval_curves=eval_curves,
            on_trained=lambda figures: figures.update(trained=True),
            on_evaluated=lambda figures: figures.update(evaluated=True),
            **settings,
        )

    def train(self, steps):
        self.events.append(("train", steps))
        return {"steps": steps}

    def evaluate(self):
        return {"loss": 1.0}

    def loops(self):
        return [event[1] for event in self.events if event[0] == "train"]


@pytest.fixture
def record():
    return Record()


def test_loops_end_at_evaluations_at_checkpoints_and_at_the_last_step(record):
    assert record.trainer().fit(0, 60, record.train, record.evaluate) == 60
    assert record.loops() == [10, 10, 5, 5, 10, 10, 10]
    evaluated = [event[1] for event in record.events if event[0] == "eval_curves"]
    assert evaluated == [25, 50, 60]
    # At 60 behind the evaluation there.
    saves = [place for place, event in enumerate(record.events) if event == "save"]
    assert [record.events[place - 1][:2] for place in saves] == [
        ("curves", 30),
        ("eval_curves", 60),
    ]


def test_figures_are_written_as_the_callbacks_leave_them(record):
    record.trainer().fit(0, 10, record.train, record.evaluate)
    assert record.events == [
        ("train", 10),
        ("curves", 10, {"steps": 10, "trained": True}),
        ("eval_curves", 10, {"loss": 1.0, "evaluated": True}),
    ]


def test_a_run_goes_on_from_its_step(record):
    assert record.trainer().fit(33, 60, record.train, record.evaluate) == 60
    assert record.loops() == [10, 7, 10]


def test_loops_end_at_stops_and_at_the_borders_of_a_trace(record, monkeypatch):
    profile = Profile("", (4, 6))
    monkeypatch.setattr(profile, "start_at", lambda step: record.events.append(("start", step)))
    monkeypatch.setattr(profile, "stop_at", lambda step: record.events.append(("stop", step)))
    record.trainer(profile=profile).fit(0, 10, record.train, record.evaluate, stops=(8, 99))
    assert record.loops() == [3, 3, 2, 2]
    traced = [event for event in record.events if event[0] in ("start", "train", "stop")]
    assert traced[:6] == [
        ("start", 0), ("train", 3), ("stop", 3), ("start", 3), ("train", 3), ("stop", 6)
    ]  # fmt: skip


def test_a_worker_that_writes_no_trace_has_the_loops_of_the_one_that_does(record, tmp_path):
    """Waits for it at the same steps: each loop begins with what the workers do together."""
    profile = Profile(str(tmp_path), (4, 6), writes=False)
    assert profile.borders == Profile(str(tmp_path), (4, 6)).borders
    record.trainer(profile=profile).fit(0, 10, record.train, record.evaluate)
    profile.close()
    assert record.loops() == [3, 3, 4]
    assert not list(tmp_path.iterdir())


def test_a_run_that_is_told_to_end_does_so_after_its_loop(record):
    def train(steps):
        record.preemption.sent = record.train(steps) and len(record.loops()) == 2
        return {}

    assert record.trainer().fit(0, 60, train, record.evaluate) == 20
    assert record.loops() == [10, 10] and "save" not in record.events


def test_an_error_of_a_callback_ends_the_run_before_it_saves(record):
    trainer = record.trainer(save_every=10)
    trainer.on_trained = lambda figures: 1 / 0
    with pytest.raises(ZeroDivisionError):
        trainer.fit(0, 60, record.train, record.evaluate)
    assert record.events == [("train", 10)]


def test_a_loop_ends_and_is_saved_at_steps_asked_for(record):
    trainer = record.trainer(save_every=1000, save_at=(7, 25, 99))
    assert trainer.fit(0, 30, record.train, record.evaluate) == 30
    assert record.loops() == [7, 10, 8, 5]
    saves = [place for place, event in enumerate(record.events) if event == "save"]
    assert [record.events[place - 1][:2] for place in saves] == [
        ("curves", 7),
        ("eval_curves", 25),
    ]


def test_a_run_takes_no_step_behind_evaluations_that_got_no_better(record):
    """Nor one that was stopped there, and continues."""
    layer = keras.layers.Dense(1)
    layer.build([None, 1])
    best = BestWeights(layer, patience=2)
    scores = iter([0.5, 0.7, 0.7, 0.6, 0.9])

    def evaluate():
        return {"f1": next(scores)}

    trainer = record.trainer(best=best)
    assert trainer.fit(0, 200, record.train, evaluate) == 100
    assert best.step == 50
    record.events.clear()
    assert trainer.fit(100, 200, record.train, evaluate) == 100
    assert not record.events


@pytest.mark.parametrize(
    "text",
    [
        "OOM when allocating tensor with shape[4096,30522] and type float on /device:GPU:0",
        "Out of memory while trying to allocate 9663676416 bytes.",
        "Ran out of memory in memory space hbm. Used 17.20G of 15.48G hbm.",
        "failed to allocate memory",
    ],
)
def test_memory_that_ran_out_is_told_with_a_remedy(text):
    for error in (MemoryError(), tf.errors.ResourceExhaustedError(None, None, text)):
        told = pytest.raises(UserError, match=r"^memory ran out: give less\.$")
        with told as raised, naming_remedy("give less"):
            raise error
        assert raised.value.__cause__ is error


@pytest.mark.parametrize(
    "text", ["/memory/ckpt-1.index; No space left on device", "a.tfrecord; Too many open files"]
)
def test_other_things_that_ran_out_are_told_as_they_are(text):
    """A full disk, for example, which `cli` has a sentence for."""
    with pytest.raises(tf.errors.ResourceExhaustedError), naming_remedy("give less"):
        raise tf.errors.ResourceExhaustedError(None, None, text)
