"""The bytes that devices exchange in a program, against what is worked out by hand."""

# ruff: noqa: E501

import pytest

from tfbio.planning import hlo_collectives, hlo_cost

PROGRAM = """\
HloModule step, is_scheduled=true

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[]{:T(256)} parameter(0)
  %b = f32[]{:T(256)} parameter(1)
  ROOT %add = f32[]{:T(256)} add(%a, %b)
}

%all-reduce-scatter.1 (input: bf16[64,512]) -> bf16[16,512] {
  %input = bf16[64,512]{1,0:T(8,128)(2,1)} parameter(0)
  %reduced = bf16[64,512]{1,0:T(8,128)(2,1)} all-reduce(%input), replica_groups={{0,1,2,3},{4,5,6,7}}, to_apply=%sum
  %index = s32[] constant(0)
  ROOT %part = bf16[16,512]{1,0:T(8,128)(2,1)} dynamic-slice(%reduced, %index, %index), dynamic_slice_sizes={16,512}
}

%body (state: (s32[], bf16[64,512])) -> (s32[], bf16[64,512]) {
  %state = (s32[]{:T(256)}, bf16[64,512]{1,0:T(8,128)(2,1)}) parameter(0)
  %i = s32[]{:T(256)} get-tuple-element(%state), index=0
  %rows = bf16[64,512]{1,0:T(8,128)(2,1)} get-tuple-element(%state), index=1
  %mine = bf16[16,512]{1,0:T(8,128)(2,1)} fusion(%rows), kind=kCustom, calls=%all-reduce-scatter.1
  %all = bf16[64,512]{1,0:T(8,128)(2,1)} all-gather(%mine), replica_groups=mesh['replica'=2,'axis_0'=4] {'axis_0'}, dimensions={0}
  ROOT %next = (s32[]{:T(256)}, bf16[64,512]{1,0:T(8,128)(2,1)}) tuple(%i, %all)
}

%condition (state.1: (s32[], bf16[64,512])) -> pred[] {
  %state.1 = (s32[]{:T(256)}, bf16[64,512]{1,0:T(8,128)(2,1)}) parameter(0)
  %i.1 = s32[]{:T(256)} get-tuple-element(%state.1), index=0
  %end = s32[]{:T(256)} constant(12)
  ROOT %less = pred[]{:T(1024)} compare(%i.1, %end), direction=LT
}

ENTRY %main (x: f32[100,64], state.2: (s32[], bf16[64,512])) -> f32[100,64] {
  %x = f32[100,64]{1,0:T(8,128)} parameter(0)
  %state.2 = (s32[]{:T(256)}, bf16[64,512]{1,0:T(8,128)(2,1)}) parameter(1)
  %loop = (s32[]{:T(256)}, bf16[64,512]{1,0:T(8,128)(2,1)}) while(%state.2), condition=%condition, body=%body
  %turned = f32[100,64]{1,0:T(8,128)} all-to-all(%x), replica_groups=[2,4]<=[8], dimensions={1}
  %moved = f32[100,64]{1,0:T(8,128)} collective-permute(%turned), source_target_pairs={{0,1},{1,2},{2,3}}
  %start = (f32[100,64]{1,0:T(8,128)}, f32[200,64]{1,0:T(8,128)}) all-gather-start(%moved), replica_groups={{0,1},{2,3},{4,5},{6,7}}, dimensions={0}
  %done = f32[200,64]{1,0:T(8,128)} all-gather-done(%start)
  ROOT %total = f32[100,64]{1,0:T(8,128)} all-reduce(%moved), replica_groups={}, to_apply=%sum
}
"""


@pytest.fixture(scope="module")
def program():
    return hlo_cost.Program(PROGRAM, peak_flops=1e12, bandwidth=1e9)


def test_what_a_device_sends(program):
    """In a ring of n devices that add arrays up, each sends 2 (n - 1) / n of an array."""
    layer = 64 * 512 * 2 * 3 / 4  # to take a part of the sum
    layer += 16 * 512 * 2 * 3  # the own part, to each of three others
    array = 100 * 64 * 4
    once = array * 3 / 4 + array + array * 1 + array * 2  # the sum of all, as of many devices
    assert hlo_collectives.exchanged(program) == 12 * layer + once
    assert hlo_collectives.exchanged(program, "body") == layer
    assert hlo_collectives.exchanged(program, "sum") == 0


def test_what_is_put_together(program):
    assert hlo_collectives.gathered(program) == ["bf16[64,512]", "f32[200,64]"]
