"""Counts the bytes that devices send to each other in a compiled TPU program, from its HLO."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from tfbio.planning.hlo_cost import Instruction, Program, called, unpadded_bytes

# For each collective operation of a group of devices, how many bytes a device sends for each that
# it gives, in a ring (Thakur et al., 2005, "Optimization of Collective Communication Operations in
# MPICH", section 4).
_SENT: dict[str, Callable[[float], float]] = {
    "all-reduce": lambda count: 2 * (1 - 1 / count),
    "reduce-scatter": lambda count: 1 - 1 / count,
    "all-to-all": lambda count: 1 - 1 / count,
    "all-gather": lambda count: count - 1,
    "collective-permute": lambda _: 1.0,
}
# A TPU's compiler writes a reduce-scatter as an all-reduce of which each device takes a part.
_REDUCE_SCATTER = "all-reduce-scatter"


def exchanged(program: Program, computation: str = "") -> float:
    """Counts the bytes that a device sends to others in the collective operations of a program.

    The body of a loop counts as often as it runs; of the branches of a conditional, the one with
    the most bytes counts.

    Args:
      program: the HLO program.
      computation: the name of one of its computations; "": the whole program.

    Returns:
      Bytes, a float, without the padding of layouts.

    Raises:
      KeyError: there is no such computation.
      ValueError: the condition of a loop is not a plain comparison with a constant.
    """
    total, computation = 0.0, computation or program.entry
    own = program.computations[computation]
    for each in own.values():
        kind = each.op.removesuffix("-start")
        if kind in _SENT:
            if computation.startswith(_REDUCE_SCATTER) and kind == "all-reduce":
                kind = "reduce-scatter"
            given = sum(unpadded_bytes(own[name].shape) for name in each.operands)
            total += given * _SENT[kind](_group(each)) if given else 0.0
        elif each.op == "while":
            total += program.trip_count(each) * exchanged(program, called(each, "body"))
        elif each.op == "conditional":
            branches = re.search(r"branch_computations=\{([^}]*)\}", each.attributes)
            names = re.findall(r"%([\w.\-]+)", branches[1] if branches else "")
            total += max((exchanged(program, name) for name in names), default=0.0)
        elif each.op in ("fusion", "async-start"):
            total += exchanged(program, called(each, "calls"))
        elif each.op == "call":
            total += exchanged(program, called(each, "to_apply"))
    return total


def gathered(program: Program) -> list[str]:
    """Lists the arrays that a program's all-gathers make whole on each device, without repetition.

    Args:
      program: the HLO program.

    Returns:
      A sorted list of the types of the arrays without their layouts, such as "f32[512,1024]".
    """
    found = set()
    for own in program.computations.values():
        for each in own.values():
            if each.op in ("all-gather", "all-gather-start"):
                arrays = re.findall(r"\b[a-z]+\d+\[[\d,]*\]", each.shape)
                # The result of a start has the operands, too.
                found |= set(arrays[len(arrays) // 2 :] if "start" in each.op else arrays)
    return sorted(found)


def _group(each: Instruction) -> float:
    """Returns the number of devices of a group that exchanges; infinity for all that there are."""
    if match := re.search(r"replica_groups=mesh\[([^\]]*)\] \{([^}]*)\}", each.attributes):
        sizes = dict(re.findall(r"('\w+')=(\d+)", match[1]))
        return math.prod(int(sizes[name]) for name in match[2].split(","))
    if match := re.search(r"replica_groups=\[\d+,(\d+)\]", each.attributes):
        return int(match[1])
    match = re.search(r"replica_groups=\{\{([\d,]+)\}", each.attributes)
    return len(match[1].split(",")) if match else math.inf
