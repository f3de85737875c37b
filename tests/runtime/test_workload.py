"""Launches built from a contract: sizes, pointers, poison and the edges the shapes promise."""

import numpy as np
import pytest

from zluda_rr.contract import load_contract
from zluda_rr.errors import UserError
from zluda_rr.runtime.weights import WorkloadKind
from zluda_rr.runtime.workload import DESCRIPTOR, POISON, Shape, build_launch

SHAPE = Shape(ex=42, ey=36, shift_x=4, shift_y=2)


def test_every_pointer_of_the_contract_is_an_allocation() -> None:
    contract = load_contract("enc0")
    launch = build_launch(contract, SHAPE)
    assert len(launch.params) == contract.parameter_bytes
    for buffer in contract.buffers:
        address = int.from_bytes(launch.params[buffer.offset : buffer.offset + 8], "little")
        allocation = launch.memory.allocations[buffer.name]
        assert (allocation.address, allocation.nbytes) == (address, buffer.size(SHAPE.ex, SHAPE.ey))
        assert allocation.writable == (buffer.role == "output")
    for surface in contract.surfaces:
        descriptor = launch.memory.view(f"{surface.name}.descriptor").view(DESCRIPTOR)[0]
        assert descriptor["base"] == launch.memory.allocations[surface.name].address
        assert (descriptor["width"], descriptor["height"]) == surface.extent(SHAPE.ex, SHAPE.ey)


def test_outputs_are_poisoned_and_inputs_are_not() -> None:
    launch = build_launch(load_contract("enc0"), SHAPE)
    assert set(launch.outputs) == {"plane_arena", "merged_planes", "blend", "gate", "half"}
    assert all((launch.memory.view(name) == POISON).all() for name in launch.outputs)
    assert (launch.memory.view("color") != POISON).any()


def test_grid_covers_the_shifted_extents_with_partial_blocks_on_all_sides() -> None:
    assert SHAPE.grid == (6, 5, 1)
    assert SHAPE.shift_x
    assert SHAPE.shift_y
    assert (SHAPE.ex + SHAPE.shift_x) % 8
    assert (SHAPE.ey + SHAPE.shift_y) % 8


def test_special_inputs_hold_nan_infinity_denormals_and_both_zeros() -> None:
    launch = build_launch(load_contract("enc0"), SHAPE, WorkloadKind.SPECIAL)
    halves = launch.memory.view("color").view(np.uint16)
    assert {0x0001, 0x83FF, 0x8000, 0x0000, 0x7C00, 0xFC00, 0x7E00} <= set(halves.tolist())


@pytest.mark.parametrize("bad", [(43, 36, 0, 0), (44, 0, 0, 0), (44, 36, 3, 0), (44, 36, 8, 0), (44, 36, -2, 0)])
def test_bad_shapes_are_user_errors(bad: tuple[int, int, int, int]) -> None:
    with pytest.raises(UserError):
        Shape(*bad)
