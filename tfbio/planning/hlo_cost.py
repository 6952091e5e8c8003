"""Counts the work of an optimized TPU program, from its HLO text.

XLA's `cost_analysis` counts the body of a loop once, and counts an array that stays on the chip
like one in memory. Here a loop's body counts as often as it runs, and only bytes that are read from
or written to HBM count: an array whose layout has a memory space, `S(1)`, is on the chip.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

# Bytes of an element, by the names of HLO's types.
_BYTES = {
    **{"pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "bf16": 2, "f16": 2},
    **{"s32": 4, "u32": 4, "f32": 4, "s64": 8, "u64": 8, "f64": 8, "c64": 8},
}
_ARRAY = re.compile(r"\b([a-z]+[0-9]*)\[([0-9,]*)\](?:\{([^}]*)\})?")
_TUPLE = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"  # of tuples, of arrays in tiles `T(8,128)`
_INSTRUCTION = re.compile(rf"^(ROOT )?%?([\w.\-]+) = ({_TUPLE}|\S+) ([a-z\-]+)\((.*)$")
_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
# Instructions that only rename their operands, or make room for the results of others.
_FREE = {
    *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "iota"),
    *("partition-id", "replica-id", "opt-barrier", "copy-done", "slice-done", "all-reduce-done"),
    *("async-update", "async-done"),
}


class Cost(NamedTuple):
    """The work of an HLO program, or of a part of it, as floats; `+` adds two field by field.

    Attributes:
      flops: FLOPs of matrix products, a multiplication with its addition as two.
      bytes: bytes read from and written to HBM, with the padding of the layouts.
      all_reduced: bytes that a replica gives to all-reduces.
      seconds: the roofline's: for each instruction the longer time of products and memory.
      instructions: the number of instructions that do work, as often as they run.
    """

    flops: float = 0.0
    bytes: float = 0.0
    all_reduced: float = 0.0
    seconds: float = 0.0
    instructions: float = 0.0

    def __add__(self, other: Cost) -> Cost:  # type: ignore[override]
        return Cost(*(a + b for a, b in zip(self, other, strict=True)))

    def times(self, count: int) -> Cost:
        """Returns the cost of this work done `count` times: each field times `count`."""
        return Cost(*(count * value for value in self))


class Instruction(NamedTuple):
    """An instruction of HLO, one line of the text.

    Attributes:
      name: its name, without "%".
      shape: the type of its result, such as "bf16[8,128]{1,0:T(8,128)}", or a tuple of types.
      op: the operation, such as "fusion".
      operands: the names of its operands; of a parameter its number, of a constant its value.
      attributes: the text after the operands, such as ", calls=%fused".
      is_root: True if the result of its computation is its own.
    """

    name: str
    shape: str
    op: str
    operands: list[str]
    attributes: str
    is_root: bool


class Program:
    """An optimized TPU program in HLO, whose cost it adds up.

    Args:
      text: the text of the HLO module, as XLA prints it.
      peak_flops: FLOP/s of the device's matrix products.
      bandwidth: bytes a second of its memory.

    Attributes:
      peak_flops, bandwidth: the arguments.
      computations: for each computation, by its name, its instructions by their names. An
        instruction has the text of its `name`, `shape`, `op` and `attributes`, the list of the
        names of its `operands`, and `is_root`, True for the result of its computation.
      entry: the name of the computation that the program begins with; "" if the text has none.

    Raises:
      IndexError: the line of an instruction is cut off.
    """

    def __init__(self, text: str, peak_flops: float, bandwidth: float):
        self.peak_flops, self.bandwidth = peak_flops, bandwidth
        self.computations: dict[str, dict[str, Instruction]] = {}
        self.entry = ""
        own: dict[str, Instruction] | None = None
        for line in text.splitlines():
            if not line.startswith(" "):
                if match := _COMPUTATION.match(line):
                    own = self.computations.setdefault(match[2], {})
                    self.entry = match[2] if match[1] else self.entry
                continue
            if own is not None and (match := _INSTRUCTION.match(line.strip())):
                root, name, shape, op, rest = match.groups()
                operands, attributes = _split_call(rest)
                own[name] = Instruction(name, shape, op, operands, attributes, bool(root))

    def cost(self, computation: str = "") -> Cost:
        """Adds up the cost of a computation of the HLO, with the computations that it calls.

        The body of a loop counts as often as it runs. Of the branches of a conditional, the one
        with the most seconds counts.

        Args:
          computation: its name; "": the whole program.

        Returns:
          A named tuple of floats: `flops` of matrix products, a multiplication with its addition as
          two; `bytes` read from and written to HBM; `all_reduced`, bytes that a replica gives to
          all-reduces; `seconds`, for each instruction the longer time of products and memory; and
          `instructions`, the number of those that do work, as often as they run. `+` adds two field
          by field, `times(count)` multiplies each.

        Raises:
          KeyError: there is no such computation.
          ValueError: the condition of a loop is not a plain comparison with a constant.
        """
        own = self.computations[computation or self.entry]
        total = Cost()
        for each in own.values():
            if each.op == "while":
                body = self.cost(called(each, "body"))
                total += body.times(self.trip_count(each))
            elif each.op == "conditional":
                branches = re.findall(r"%([\w.\-]+)", _after(each, "branch_computations"))
                total += max((self.cost(branch) for branch in branches), key=lambda c: c.seconds)
            elif each.op == "call":
                total += self.cost(called(each, "to_apply"))
            elif each.op == "async-start":
                total += self.cost(called(each, "calls"))
            elif each.op not in _FREE and "AllocateBuffer" not in each.attributes:
                total += self._of_instruction(each, own)
        return total

    def trip_count(self, loop: Instruction) -> int:
        """Counts how often a loop of the HLO runs whose counter goes up from 0 by one, an int.

        Args:
          loop: a "while" instruction of this program, of `computations`.

        Raises:
          ValueError: the text has no trip count, and the condition is not one comparison with one
            constant.
        """
        if known := re.search(r'known_trip_count":\{"n":"(\d+)"', loop.attributes):
            return int(known[1])
        own = self.computations[called(loop, "condition")]
        compared = [x for x in own.values() if x.op == "compare" or "fusion" in x.op]
        constants = [x for x in own.values() if x.op == "constant" and x.shape.startswith("s32[]")]
        if len(compared) != 1 or len(constants) != 1:
            raise ValueError(f"{loop.name}: the condition of this loop is not a plain comparison")
        return int(_found(r"^\(?(-?\d+)", constants[0].operands[0])[1])

    def _of_instruction(self, each: Instruction, own: dict[str, Instruction]) -> Cost:
        flops = self.flops(each, own)
        read = [self._read(each, number, own) for number in range(len(each.operands))]
        moved = sum(read) + self._written(each)
        if each.op in ("copy-start", "slice-start"):
            moved = sum(_bytes(x) for x in _arrays(each.shape)[:2])
        reduced = 0.0
        if each.op in ("all-reduce", "all-reduce-start"):
            reduced = sum(unpadded_bytes(own[name].shape) for name in each.operands)
        seconds = max(flops / self.peak_flops, moved / self.bandwidth)
        return Cost(flops, moved, reduced, seconds, 1)

    def _read(self, each: Instruction, number: int, own: dict[str, Instruction]) -> float:
        """Counts the bytes that an instruction reads of one operand."""
        operand = own.get(each.operands[number])
        whole = sum(_bytes(x) for x in _arrays(operand.shape)) if operand else 0.0
        if each.op in ("dynamic-slice", "slice", "gather") and number == 0:
            return min(whole, self._written(each))
        if each.op == "dynamic-update-slice" and number == 0:
            return 0.0
        if each.op != "fusion":
            return whole
        inner = self.computations[called(each, "calls")]
        (parameter,) = (
            x for x in inner.values() if x.op == "parameter" and x.operands == [str(number)]
        )
        return min(whole, self._read_inside(parameter, inner, whole))

    def _read_inside(self, value: Instruction, inner: dict, whole: float) -> float:
        """Counts the bytes of a fusion's parameter that it reads: slices of it, or all of it."""
        total = 0.0
        for user in inner.values():
            if value.name not in user.operands:
                continue
            if user.op == "bitcast":
                total += self._read_inside(user, inner, whole)
            elif user.op in ("dynamic-slice", "slice"):
                total += math.prod(_dimensions(user.shape)) * _element(user.shape)
            elif user.op == "dynamic-update-slice" and user.operands[0] == value.name:
                total += 0.0  # written in place
            elif user.op == "fusion":
                place = user.operands.index(value.name)
                nested = self.computations[called(user, "calls")]
                (parameter,) = (
                    x for x in nested.values() if x.op == "parameter" and x.operands == [str(place)]
                )
                total += self._read_inside(parameter, nested, whole)
            else:
                return whole
        return total

    def _written(self, each: Instruction) -> float:
        """Counts the bytes that an instruction writes."""
        shapes = _arrays(each.shape)
        inner = self.computations[called(each, "calls")] if each.op == "fusion" else {}
        root = next((x for x in inner.values() if x.is_root), None)
        names = root.operands if root and root.op == "tuple" else [root.name] if root else []
        if len(names) != len(shapes):
            return sum(map(_bytes, shapes))
        written = zip(shapes, names, strict=True)
        return sum(min(_bytes(x), self._updated(inner[name], inner)) for x, name in written)

    def _updated(self, value: Instruction, inner: dict[str, Instruction]) -> float:
        """Bytes of a fusion's result that it writes: all, or what an update in place has."""
        while value.op == "bitcast":
            value = inner[value.operands[0]]
        if value.op == "dynamic-update-slice":
            update = inner[value.operands[1]]
            return math.prod(_dimensions(update.shape)) * _element(update.shape)
        if value.op == "fusion":
            nested = self.computations[called(value, "calls")]
            return self._updated(next(x for x in nested.values() if x.is_root), nested)
        return math.inf

    def flops(self, each: Instruction, own: dict[str, Instruction]) -> float:
        """Counts the FLOPs of the matrix products in an HLO instruction, also inside a fusion.

        Args:
          each: the instruction, of `computations`.
          own: the instructions of its computation by their names.

        Returns:
          FLOPs, a float, a multiplication with its addition as two; 0.0 if it has no product.
        """
        if each.op == "fusion":
            inner = self.computations[called(each, "calls")]
            return sum(self.flops(x, inner) for x in inner.values())
        if each.op == "dot":
            left = _dimensions(own[each.operands[0]].shape)
            summed = _numbers(_after(each, "lhs_contracting_dims"))
            return 2.0 * math.prod(_dimensions(each.shape)) * math.prod(left[i] for i in summed)
        if each.op == "convolution":
            return _convolution_flops(each, own)
        return 0.0


def _convolution_flops(each: Instruction, own: dict[str, Instruction]) -> float:
    """Counts a convolution's FLOPs like XLA's HloCostAnalysis: positions in the padding are none.

    A TPU's compiler writes every product as a convolution; batches are spatial dimensions, of whose
    window all positions but one are padding.
    """
    left, right = (_dimensions(own[name].shape) for name in each.operands[:2])
    output = _dimensions(each.shape)
    of_left, rest = _found(r"dim_labels=(\w+)_(\w+->\w+)", each.attributes).groups()
    of_right, of_output = rest.split("->")
    window = {
        name: values.split("x")
        for name, values in re.findall(r"(\w+)=([\-\dx_]+)", _after(each, "window"))
    }
    spatial = sorted(label for label in of_left if label.isdigit())
    positions = 1
    for place, label in enumerate(spatial):

        def of(name: str, default: str, place: int = place) -> str:
            return window[name][place] if name in window else default

        size, stride = int(of("size", "1")), int(of("stride", "1"))
        low, step = int(of("pad", "0_0").split("_")[0]), int(of("rhs_dilate", "1"))
        dilation = int(of("lhs_dilate", "1"))
        inputs, outputs = left[of_left.index(label)], output[of_output.index(label)]
        valid = 0
        for kernel in range(size):
            for out in range(outputs):
                at = out * stride - low + kernel * step
                valid += 0 <= at < (inputs - 1) * dilation + 1 and at % dilation == 0
        positions *= valid
    inputs = right[of_right.index("i")]
    return 2.0 * positions * inputs * output[of_output.index("f")] * output[of_output.index("b")]


def _split_call(rest: str) -> tuple[list[str], str]:
    """Splits a call into the names of its operands, in parentheses, and its attributes."""
    depth, end = 1, -1
    while depth:
        end += 1
        depth += (rest[end] in "([{") - (rest[end] in ")]}")
    inside = re.sub(r"/\*.*?\*/", "", rest[:end])
    operands = [part.split(" ")[-1].lstrip("%") for part in inside.split(", ") if part]
    return operands, rest[end + 1 :]


def _after(each: Instruction, name: str) -> str:
    """Returns an attribute's text in braces; "" where there is none."""
    match = re.search(rf"\b{name}=\{{([^}}]*)\}}", each.attributes)
    return match[1] if match else ""


def called(each: Instruction, name: str) -> str:
    """Returns the name of a computation that an HLO instruction calls.

    Args:
      each: the instruction.
      name: the attribute that names the computation, such as "calls" or "body".
    """
    return _found(rf"\b{name}=%?([\w.\-]+)", each.attributes)[1]


def _found(pattern: str | re.Pattern[str], text: str) -> re.Match[str]:
    """Finds what HLO always has; raises a ValueError where the text does not have it."""
    if match := re.search(pattern, text):
        return match
    raise ValueError(f"{text}: this is no HLO that XLA prints")


def _numbers(text: str) -> list[int]:
    return [int(x) for x in text.split(",") if x]


def _arrays(shape: str) -> list[tuple[str, str, str]]:
    """Returns (element, dimensions, layout) of each array in a shape, which may be a tuple."""
    return [array for array in _ARRAY.findall(shape) if array[0] in _BYTES]


def unpadded_bytes(shape: str) -> float:
    """Counts the bytes of the arrays of an HLO type, without the padding of their layouts.

    Args:
      shape: the text of the type, such as "bf16[8,128]{1,0:T(8,128)}", or a tuple of types.
    """
    return float(sum(math.prod(_numbers(x[1])) * _BYTES[x[0]] for x in _arrays(shape)))


def _dimensions(shape: str) -> list[int]:
    return _numbers(_found(_ARRAY, shape)[2])


def _element(shape: str) -> int:
    return _BYTES[_found(_ARRAY, shape)[1]]


def _bytes(array: tuple[str, str, str]) -> float:
    """Counts an array's bytes in HBM, in tiles: `{1,0:T(8,128)(2,1)}` pads to 8 rows of 128."""
    element, dimensions, layout = array
    if "S(" in layout:
        return 0.0
    sizes = _numbers(dimensions)
    if tile := re.search(r"T\(([\d,]+)\)", layout):
        order = _numbers(layout.split(":")[0])  # the fastest first
        sizes = [sizes[axis] for axis in reversed(order)]
        for place, size in enumerate(reversed(_numbers(tile[1])), start=1):
            if place <= len(sizes):
                sizes[-place] = -(-sizes[-place] // size) * size
    return float(math.prod(sizes) * _BYTES[element])
