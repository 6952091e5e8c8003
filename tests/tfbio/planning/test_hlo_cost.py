"""Counts of a program's work against what is worked out by hand."""

# ruff: noqa: E501

import pytest

from tfbio.planning import hlo_cost

PROGRAM = """\
HloModule step, is_scheduled=true

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[]{:T(256)} parameter(0)
  %b = f32[]{:T(256)} parameter(1)
  ROOT %add = f32[]{:T(256)} add(%a, %b)
}

%product (left: bf16[64,256], stack: bf16[12,256,512], index: s32[]) -> bf16[64,512] {
  %left = bf16[64,256]{1,0:T(8,128)(2,1)} parameter(0)
  %stack = bf16[12,256,512]{2,1,0:T(8,128)(2,1)} parameter(1)
  %index = s32[]{:T(256)} parameter(2)
  %zero = s32[] constant(0)
  %slice = bf16[1,256,512]{2,1,0:T(8,128)(2,1)} dynamic-slice(%stack, %index, %zero, %zero), dynamic_slice_sizes={1,256,512}
  %kernel = bf16[256,512]{1,0:T(8,128)(2,1)} bitcast(%slice)
  ROOT %out = bf16[64,512]{1,0:T(8,128)(2,1)} convolution(%left, %kernel), dim_labels=bf_io->bf
}

%body (state: (s32[], bf16[12,256,512], bf16[64,256])) -> (s32[], bf16[12,256,512], bf16[64,256]) {
  %state = (s32[]{:T(256)}, bf16[12,256,512]{2,1,0:T(8,128)(2,1)}, bf16[64,256]{1,0:T(8,128)(2,1)}) parameter(0)
  %i = s32[]{:T(256)} get-tuple-element(%state), index=0
  %stacked = bf16[12,256,512]{2,1,0:T(8,128)(2,1)} get-tuple-element(%state), index=1
  %rows = bf16[64,256]{1,0:T(8,128)(2,1)} get-tuple-element(%state), index=2
  %made = bf16[64,512]{1,0:T(8,128)(2,1)} fusion(%rows, %stacked, %i), kind=kOutput, calls=%product
  ROOT %next = (s32[]{:T(256)}, bf16[12,256,512]{2,1,0:T(8,128)(2,1)}, bf16[64,256]{1,0:T(8,128)(2,1)}) tuple(%i, %stacked, %rows)
}

%condition (state.1: (s32[], bf16[12,256,512], bf16[64,256])) -> pred[] {
  %state.1 = (s32[]{:T(256)}, bf16[12,256,512]{2,1,0:T(8,128)(2,1)}, bf16[64,256]{1,0:T(8,128)(2,1)}) parameter(0)
  %i.1 = s32[]{:T(256)} get-tuple-element(%state.1), index=0
  %end = s32[]{:T(256)} constant(12)
  ROOT %less = pred[]{:T(1024)} compare(%i.1, %end), direction=LT
}

ENTRY %main (x: f32[100,64], state.2: (s32[], bf16[12,256,512], bf16[64,256])) -> f32[100,64] {
  %x = f32[100,64]{1,0:T(8,128)} parameter(0)
  %state.2 = (s32[]{:T(256)}, bf16[12,256,512]{2,1,0:T(8,128)(2,1)}, bf16[64,256]{1,0:T(8,128)(2,1)}) parameter(1)
  %loop = (s32[]{:T(256)}, bf16[12,256,512]{2,1,0:T(8,128)(2,1)}, bf16[64,256]{1,0:T(8,128)(2,1)}) while(%state.2), condition=%condition, body=%body
  %near = f32[100,64]{1,0:T(8,128)S(1)} copy(%x)
  ROOT %all = f32[100,64]{1,0:T(8,128)} all-reduce(%near), replica_groups={}, to_apply=%sum
}
"""


@pytest.fixture(scope="module")
def cost():
    return hlo_cost.Program(PROGRAM, peak_flops=1e12, bandwidth=1e9).cost()


def test_a_loops_products_count_as_often_as_it_runs(cost):
    assert cost.flops == 12 * 2 * 64 * 256 * 512


def test_memory_is_what_is_moved_with_its_padding(cost):
    # Of the stack a turn of the loop reads a twelfth. 100 x 64 is in tiles 104 x 128; the copy
    # reads it and writes to the chip, from where the all-reduce takes it.
    turn = 2 * (64 * 256 + 256 * 512 + 64 * 512) + 4
    assert cost.bytes == 12 * turn + 2 * 4 * 104 * 128


def test_all_reduces_and_the_rooflines_time(cost):
    assert cost.all_reduced == 4 * 100 * 64
    assert cost.seconds == pytest.approx(cost.bytes / 1e9)
    assert cost.instructions == 12 + 2


def test_a_batch_of_products_is_a_convolution_of_whose_window_one_place_counts():
    text = """\
ENTRY %main (a: bf16[64,12,128,64], b: bf16[64,12,128,64]) -> bf16[64,12,128,128] {
  %a = bf16[64,12,128,64]{3,2,1,0} parameter(0)
  %b = bf16[64,12,128,64]{3,2,1,0} parameter(1)
  ROOT %c = bf16[64,12,128,128]{3,2,1,0} convolution(%a, %b), window={size=64x12 stride=63x11 lhs_dilate=64x12}, dim_labels=01bf_01oi->01bf
}
"""
    program = hlo_cost.Program(text, 1e12, 1e9)
    assert program.cost().flops == 2 * 64 * 12 * 128 * 128 * 64


def test_an_unknown_loop_is_refused():
    text = PROGRAM.replace("ROOT %less = pred[]{:T(1024)} compare(%i.1, %end), direction=LT", "")
    with pytest.raises(ValueError, match="not a plain comparison"):
        hlo_cost.Program(text, 1e12, 1e9).cost()


def test_what_runs_beside_the_rest_counts_once():
    """As on a v6e: a copy that starts, goes on, and ends."""
    text = PROGRAM.replace(
        "ENTRY",
        """\
%aside (y: f32[100,64]) -> f32[100,64] {
  %y = f32[100,64]{1,0:T(8,128)} parameter(0)
  ROOT %copied = f32[100,64]{1,0:T(8,128)} copy(%y)
}

ENTRY""",
    ).replace(
        "  %near",
        """\
  %start = ((f32[100,64]{1,0:T(8,128)}), f32[100,64]{1,0:T(8,128)}, u32[]{:S(8)}) async-start(%x), async_execution_thread="sparsecore", calls=%aside
  %update = ((f32[100,64]{1,0:T(8,128)}), f32[100,64]{1,0:T(8,128)}, u32[]{:S(8)}) async-update(%start)
  %done = f32[100,64]{1,0:T(8,128)} async-done(%update)
  %near""",
    )
    assert "%aside (" in text and "async-done" in text
    before = hlo_cost.Program(PROGRAM, peak_flops=1e12, bandwidth=1e9).cost()
    after = hlo_cost.Program(text, peak_flops=1e12, bandwidth=1e9).cost()
    assert after.bytes - before.bytes == 2 * 4 * 104 * 128  # read and written, with padding
