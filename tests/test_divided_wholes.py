"""Parts that are made as a whole: an orthogonal gate is a matrix of its own, of the normals of its place."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paintings import ONES, STATE, ZEROS, indices, whole

from fastinit import DistributionError, Plan, PlanError, PlannedTensor, verify_checkpoint, write_checkpoint
from fastinit._engine.fill import fill
from fastinit.diagnosis import diagnose
from fastinit.initializers import DeltaOrthogonal, Diagonal, Normal, Orthogonal, Parts, painted

GATES = [(((gate * 8, gate * 8 + 8, 1), (0, 5, 1)), Orthogonal(1.5, "oi")) for gate in range(3)]
GATES.append((((24, 32, 1), (0, 5, 1)), ONES))


def orthonormal(normals, gain):
    """Q of a QR decomposition with R's diagonal positive (C16), by numpy."""
    q, r = np.linalg.qr(normals)
    return gain * q * np.sign(np.diagonal(r))


def test_the_gates_of_a_recurrent_layer_are_one_matrix_or_take_the_same_draws():
    """Each gate is orthogonal by itself, and made of the normals of its own place."""
    content = painted((32, 5), GATES)
    assert len(content.parts) == 4
    assert content.describe() == "orthogonal gain=1.5 layout=oi in 3 boxes, ones in [24:32, 0:5]"
    made, normals = fill(STATE, (32, 5), content), fill(STATE, (32, 5), Normal())
    for gate in range(3):
        rows = slice(gate * 8, gate * 8 + 8)
        assert np.allclose(made[rows], orthonormal(normals[rows], 1.5), rtol=0, atol=1e-10)
    assert (made[24:] == 1).all()
    assert made[:8].tolist() != made[8:16].tolist()


@settings(max_examples=100)
@given(st.data())
def test_a_part_of_an_orthogonal_part_is_made_of_fewer_normals(data):
    layers = [(((0, 9, 2), (1, 7, 3)), Orthogonal()), (((1, 9, 2), (1, 7, 3)), Diagonal(2.0))]
    content = painted((9, 7), [(whole(9, 7), ZEROS), *layers])
    made = fill(STATE, (9, 7), content, dtype="float32")
    assert np.allclose(made[::2, 1::3].T @ made[::2, 1::3], np.eye(2), atol=1e-6)
    assert made[1::2, 1::3].tolist() == (2 * np.eye(4, 2)).tolist()
    index = data.draw(indices((9, 7)))
    assert np.array_equal(fill(STATE, (9, 7), content, dtype="float32", index=index), made[index])


def test_what_is_left_of_an_orthogonal_matrix_is_planned():
    """With a row painted over it is orthogonal no longer, and its other rows could not be made alone."""
    over = (((3, 4, 1), (0, 5, 1)), ZEROS)
    with pytest.raises(DistributionError, match=r"'orthogonal' in \[0:8, 0:5\] is made as a whole"):
        painted((32, 5), [*GATES, over])
    hidden = painted((32, 5), [*GATES, *((box, ZEROS) for box, _ in GATES[:3])])
    assert hidden.describe() == "zeros, ones in [24:32, 0:5]"
    assert painted((8, 5), [(whole(8, 5), Orthogonal())]) == Orthogonal()
    content = Parts(((((0, 1, 1), (0, 3, 1)), ZEROS), (((1, 3, 1), (0, 3, 1)), DeltaOrthogonal(layout="oi"))))
    with pytest.raises(PlanError, match="delta_orthogonal needs inputs <= outputs"):
        Plan(17, "mine", "named", [PlannedTensor("w", (3, 3), "float32", "parts", content, 0)])


def test_the_tap_of_a_part_is_made_of_normals_elsewhere():
    """Half a kernel's outputs: the middle of the part lies at another place of the whole."""
    half = DeltaOrthogonal(layout="oihw")
    content = painted((8, 2, 3, 3), [(whole(8, 2, 3, 3), ZEROS), (((4, 8, 1), *whole(2, 3, 3)), half)])
    made, normals = fill(STATE, (8, 2, 3, 3), content), fill(STATE, (8, 2, 3, 3), Normal())
    assert np.allclose(made[4:, :, 1, 1], orthonormal(normals[4:, :, 1, 1], 1.0), rtol=0, atol=1e-10)
    made[4:, :, 1, 1] = 0
    assert not made.any()
    narrow = painted((2, 2, 5, 3), [(whole(2, 2, 5, 3), ZEROS), ((*whole(2, 2), (2, 5, 1), (0, 3, 1)), half)])
    tap = fill(STATE, (2, 2, 5, 3), narrow)[:, :, 3, 1]
    assert np.allclose(tap, orthonormal(fill(STATE, (2, 2, 5, 3), Normal())[:, :, 3, 1], 1.0), rtol=0, atol=1e-10)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_a_file_of_gates_is_accused_on_another_machine(tmp_path, dtype):
    """LAPACK decides the last bits of an orthogonal part, and of no other part."""
    content, path = painted((32, 5), GATES), tmp_path / "gates.safetensors"
    plan = Plan(17, "mine", "named", [PlannedTensor("w", (32, 5), dtype, "parts", content, STATE)])
    write_checkpoint(plan, path)
    found = verify_checkpoint(path)
    assert (bool(found), found.approximate) == (True, ())
    assert diagnose(path).findings == ()
    last = 1 if dtype == "float64" else 0
    for element, is_right in ((7, dtype == "float64"), (159, False)):
        stored = bytearray(path.read_bytes())
        stored[len(stored) - (160 - element) * plan["w"].dtype.itemsize] ^= 1
        other = tmp_path / "other.safetensors"
        other.write_bytes(stored)
        found = verify_checkpoint(other)
        assert (bool(found), found.approximate) == (is_right, ("w",) * is_right * last)
