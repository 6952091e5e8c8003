"""Curves, on event files as TensorFlow writes them."""

import time

import pytest
import tensorflow as tf

from tfbio.reporting import curves


def write(folder, points, tags=("loss",)):
    with tf.summary.create_file_writer(str(folder)).as_default():
        for step, value in points:
            for tag in tags:
                tf.summary.scalar(tag, value, step=step)


def test_steps_that_were_gone_over_again_count_once(tmp_path):
    write(tmp_path, [(1, 9.0), (2, 8.0), (3, 7.0)])
    time.sleep(1.1)  # the second file must have a later name
    write(tmp_path, [(2, 8.5), (3, 7.5), (4, 7.0)])
    assert curves.read(tmp_path)["loss"] == [(1, 9.0), (2, 8.5), (3, 7.5), (4, 7.0)]


def test_the_section_has_the_last_figures_of_both(tmp_path):
    tags = ("loss", "generator_loss")
    write(tmp_path / "logs" / "train", [(1, 9.0), (2, 8.5)], tags)
    write(tmp_path / "logs" / "heldout", [(2, 8.25)], tags)
    read = curves.read_run(tmp_path)
    text = curves.section("work/model", read)
    assert "`work/model`, at step 2." in text
    assert "| generator loss | 8.5000 | 8.2500 |" in text
    assert "discriminator" not in text
    curves.draw(read, tmp_path / "drawn.png")
    assert (tmp_path / "drawn.png").read_bytes().startswith(b"\x89PNG")


def test_a_folder_without_logs_is_named(tmp_path):
    with pytest.raises(curves.CurvesError, match=r"nowhere.*--model_dir"):
        curves.read_run(tmp_path / "nowhere")
