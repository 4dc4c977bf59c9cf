"""Relations hold under `fast_init` as in the model's own code: between tensors, and between parts of one.

The danger is a relation lost in silence: a negated copy that is a copy, a repeated draw that is two, a scaled part
whose numbers are those of another part. `replayed.py` runs the own code with fastinit's numbers and compares.
"""

import copy

import pytest
from conftest import peer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

torch = peer("torch")

from integrations.replayed import differences, ours  # noqa: E402

import fastinit.torch as ft  # noqa: E402
from fastinit.errors import PlanError  # noqa: E402

nn, init = torch.nn, torch.nn.init
P = nn.Parameter
ORDERS = ("name", "call")


BODIES = {}


def body(function):
    BODIES[function.__name__] = function
    return function


# ---- parts -------------------------------------------------------------------------------------------


@body
def a_part_is_scaled_and_read(s):
    s.m = nn.Linear(4, 4)
    s.m.weight.data[2:].mul_(2)
    s.norm = s.m.weight.detach().norm()


@body
def a_part_is_scaled(s):
    s.w = P(torch.randn(6, 4))
    s.w.data[4:].mul_(0.1)
    s.w.data[:, 1].neg_()


@body
def a_part_of_a_column_is_scaled_and_made_contiguous(s):
    w = torch.randn(4, 6)
    w[:, 2:4].mul_(3)
    s.w = P(w.t().contiguous())
    s.d = P(w.double())


@body
def parts_of_a_draw_are_parameters(s):
    w = torch.randn(6, 4)
    s.a, s.b, s.c = P(w[:2].clone()), P(w[2:].clone()), P(w[1:3].clone())


@body
def rows_beside_rows_that_have_no_name(s):
    s.all = torch.randn(6, 4)
    s.w = P(s.all[::2])


@body
def a_copy_of_what_was_drawn_over(s):
    w = torch.randn(3, 4)
    s.copy = torch.cat([w, w])
    w[:2].normal_()
    s.w = P(w)


@body
def chunks_are_joined_in_another_order(s):
    a, b, c = torch.randn(6, 4).chunk(3)
    s.w = P(torch.cat([c, a, b]))


@body
def a_scaled_part_and_the_draw_before_it(s):
    w = torch.randn(4, 4)
    s.before = w.clone()
    w[2:].mul_(0.5)
    s.w = P(w)


@body
def a_diagonal_is_scaled(s):
    w = torch.randn(4, 4)
    w.diagonal().mul_(2)
    s.w = P(w)


# ---- repeated, negated, shifted ----------------------------------------------------------------------


@body
def negated(s):
    w = torch.randn(4, 4)
    s.a, s.b = P(w), P(-w)


@body
def shifted(s):
    w = torch.rand(4, 4)
    s.a, s.b, s.c = P(w), P(1 - w), P(w * 0.3 + 0.1)


@body
def negated_and_plain_attribute(s):
    w = torch.randn(4, 4)
    s.a, s.plain, s.same = P(w), w * 0.3, w.clone()


@body
def repeated_in_one_tensor(s):
    w, row = torch.randn(3, 4), torch.randn(1, 4)
    s.w, s.n, s.c = P(torch.cat([w, w])), P(torch.cat([row, -row])), P(torch.cat([row] * 3))
    s.v = P(torch.stack([torch.randn(4)] * 3))


@body
def repeated_along_columns(s):
    w = torch.randn(3, 4)
    s.w = P(torch.cat([w, w], dim=1))


@body
def repeated_by_copies_in_place(s):
    a, q = torch.empty(6, 4), torch.randn(3, 4)
    a[:3].copy_(q)
    a[3:].copy_(q)
    s.a = P(a)


@body
def a_row_copied_over_another_of_no_name(s):
    s.v = torch.randn(3, 4) * 0.3
    s.w = 0.3 - s.v
    s.w[0].copy_(s.v[2])


@body
def repeated_in_one_storage(s):
    a = torch.randn(6, 4)
    a[3:].copy_(a[:3])
    s.a = P(a)


@body
def widened(s):
    w = torch.randn(4, 4)
    chosen = torch.tensor([0, 1, 2, 3, 1, 0])
    s.w, s.v = P(w[chosen]), P(torch.randn(2, 4).repeat(2, 1))


@body
def transposed_copies(s):
    w = torch.randn(3, 4)
    s.w, s.t, s.u = P(w), P(w.t().contiguous()), P(w.t())


# ---- dtypes ------------------------------------------------------------------------------------------


@body
def a_wide_copy_of_a_narrow_one(s):
    s.a = nn.Linear(4, 4).bfloat16()
    s.b = copy.deepcopy(s.a).float()


@body
def a_narrow_tensor_widened(s):
    s.w = P(torch.randn(4, 4).bfloat16().float())
    s.h = P(torch.randn(4, 4).half().bfloat16())


@body
def a_narrow_copy_of_a_wide_one(s):
    w = torch.randn(4, 4)
    s.w, s.n = P(w), P(w.bfloat16())


@body
def bits_read_as_another_dtype(s):
    s.i = P(torch.full((4,), 0x3F800000, dtype=torch.int32).view(torch.float32))
    s.h = P(torch.ones(8, dtype=torch.float16).view(torch.bfloat16))


@body
def one_element_is_no_number(s):
    s.broadcast = P(torch.randn(4) * torch.ones(1, 1))
    s.wide = P(torch.randn(4) * torch.tensor([2.0], dtype=torch.float64))
    s.narrow = P(torch.ones(3, dtype=torch.float16) * torch.tensor([2.0]))
    s.scalars = P(torch.ones((), dtype=torch.float16) * torch.tensor(2.0))
    s.kept = P(torch.ones(3, dtype=torch.float16) * torch.tensor(2.0))
    s.integers = P(torch.ones(3, dtype=torch.int64) * torch.tensor(0.1, dtype=torch.float64))
    s.added = P(torch.zeros(5) + torch.ones(1, 1))


@body
def too_large_for_the_dtype(s):
    s.cast = P((torch.randn(4, 4) * 1e6).half())
    s.scaled = P(torch.randn(4, 4, dtype=torch.float16).mul_(1e6))


# ---- constructions -----------------------------------------------------------------------------------


@body
def identities_in_part(s):
    w = init.eye_(torch.empty(4, 4))
    w[2:].mul_(0.5)
    s.scaled, s.rows = P(w), P(init.eye_(torch.empty(4, 4))[1:])
    s.viewed = P(init.eye_(torch.empty(2, 3)).view(3, 2))
    dirac = init.dirac_(torch.empty(2, 2, 3))
    dirac[:, :, 1].mul_(3)
    s.dirac, s.taps = P(dirac), P(init.dirac_(torch.empty(3, 2, 3)).transpose(0, 1))


# ---- arguments of torch ------------------------------------------------------------------------------


@body
def joined_to_nothing(s):
    w, v = torch.empty(0), torch.tensor([])
    for _ in range(3):
        w, v = torch.cat([w, torch.randn(2, 3)]), torch.cat([v, torch.randn(2, 3)], dim=1)
    s.w, s.v = P(w), P(v)


@body
def written_to_out(s):
    a, b = torch.randn(2, 3), torch.randn(2, 3)
    w, v, t, n = torch.zeros(4, 3), torch.zeros(2, 2, 3), torch.ones(1), torch.empty(2, 3)
    torch.cat([a, b], out=w)
    torch.stack([a, b], out=v)
    torch.add(t, 1, out=t)
    torch.neg(a, out=n)
    s.a, s.w, s.v, s.t, s.n = map(P, (a, w, v, t, n))


@body
def clamped_by_tensors(s):
    s.w = P(torch.ones(8).clamp(max=torch.tensor(0.5)))
    s.v = P(torch.randn(8).clamp(torch.tensor(-0.5), torch.tensor(0.5)))


@body
def a_number_that_left(s):
    w = torch.randn(4)
    s.w = P(w)
    s.v = P(torch.tensor(w.detach().clone().tolist()) * 2)


@pytest.mark.parametrize("by", ORDERS)
@pytest.mark.parametrize("name", BODIES)
def test_relations_are_those_of_the_code(name, by):
    assert differences(BODIES[name], by) == []


@pytest.mark.parametrize("by", ORDERS)
def test_constructions_in_part(by):
    """The own code's orthogonal and sparse matrices have other numbers: their promises are judged."""

    def build(s):
        o, z = init.orthogonal_(torch.empty(8, 8)), init.sparse_(torch.empty(8, 8), 0.5)
        o[:4].mul_(2)
        z[3:].mul_(2)
        s.o, s.z, s.viewed = P(o), P(z), P(init.orthogonal_(torch.empty(8, 8)).view(2, 4, 8))
        s.rows = P(init.orthogonal_(torch.empty(8, 8))[4:])

    made = {name: tensor.detach() for name, tensor in ours(build, 17, by)[0].items()}
    made["o"][:4] /= 2
    for square in (made["o"], made["viewed"].reshape(8, 8)):
        assert torch.allclose(square @ square.t(), torch.eye(8), atol=1e-5)
    assert torch.allclose(made["rows"] @ made["rows"].t(), torch.eye(4), atol=1e-5)
    assert ((made["z"] == 0).sum(0) == 4).all()


def test_views_that_conjugate_are_read_as_they_show():
    def build(s):
        complex_ones = torch.view_as_complex(torch.ones(4, 4, 2))
        s.w = P(torch.empty(4, 4))
        s.w.data.copy_(complex_ones.conj().imag)

    assert (ours(build, 17, "name")[0]["w"] == -1).all()


def test_data_that_changed_after_its_block_is_in_no_plan():
    """A plan asked for later would hold the bytes of a trained table, and say that its code computed them."""
    with ft.record() as recording:
        model = nn.Module()
        model.register_buffer("mask", torch.tril(torch.ones(4, 4)))
    assert (recording.plan(0, model).array("mask") == torch.tril(torch.ones(4, 4)).numpy()).all()
    model.mask.zero_()
    with pytest.raises(PlanError, match=r"'mask' is data .* changed after its block"):
        recording.plan(0, model)


def test_a_table_that_a_loop_fills_is_data():
    """17,000 writes: a plan cannot tell them, and to paint one over the other takes all pairs of them."""

    def build(s):
        table, mask = torch.zeros(68, 250), torch.zeros(400, 400)
        for p in range(68):
            for i in range(250):
                table[p, i] = p / (i + 1)
        for i in range(400):
            mask[i, : i + 1] = -1
        s.register_buffer("table", table)
        s.register_buffer("mask", mask)

    made = ours(build, 17, "name")[0]
    assert torch.equal(made["table"], torch.arange(68.0)[:, None] / torch.arange(1.0, 251.0))
    assert torch.equal(made["mask"], -torch.tril(torch.ones(400, 400)))


def test_what_is_computed_is_listed_with_a_name():
    """A view of draws as complex numbers, and a scaled diagonal, are no boxes of what was drawn."""

    def build(s):
        s.c = P(torch.view_as_complex(torch.randn(4, 4, 2)))
        a_diagonal_is_scaled(s)

    assert ours(build, 17, "name")[1] == {"c": ("normal",), "w": ("mul_",)}


@pytest.mark.parametrize("by", ORDERS)
def test_rows_drawn_by_a_long_loop_are_computed(by):
    def build(s):
        s.w = P(torch.zeros(2000, 4))
        for row in range(2000):
            init.normal_(s.w[row])

    tensors, computed = ours(build, 17, by)
    assert computed == {"w": ("many writes",)}
    assert tensors["w"].detach().std() == pytest.approx(1, rel=0.05)
    assert len(tensors["w"].unique()) > 7900


@pytest.mark.parametrize("by", ORDERS)
def test_a_tensor_that_was_narrow_stays_as_coarse(by):
    def build(s):
        s.w, s.h = P(torch.randn(64).bfloat16().float()), P(torch.randn(64).half().bfloat16())
        s.m = nn.Linear(8, 8, dtype=torch.bfloat16).float()

    made, _ = ours(build, 17, by)
    for name in ("w", "m.weight"):
        assert torch.equal(made[name], made[name].bfloat16().float())


def test_experts_drawn_one_by_one_stay_draws():
    def build(s):
        s.w, s.b = P(torch.empty(300, 2, 3)), P(torch.empty(300, 2))
        for expert in range(300):
            init.normal_(s.w[expert], std=0.02)
            init.zeros_(s.b[expert])

    tensors, computed = ours(build, 17, "name")
    assert computed == {}
    assert tensors["w"].detach().std() == pytest.approx(0.02, rel=0.1)
    assert not tensors["b"].any()


# ---- programs that nobody wrote ----------------------------------------------------------------------

NUMBERS = (0.5, -2.0, 0.3, 1.5)
DTYPES = (torch.float32, torch.bfloat16, torch.float64, torch.float16)

NEW = {
    "randn": lambda number, dtype: torch.randn(3, 4, dtype=dtype),
    "rand": lambda number, dtype: torch.rand(4, 3, dtype=dtype),
    "normal_": lambda number, dtype: torch.empty(3, 4, dtype=dtype).normal_(number, 0.5),
    "uniform_": lambda number, dtype: torch.zeros(4, 3, dtype=dtype).uniform_(number - 1, number),
    "full": lambda number, dtype: torch.full((3, 4), number, dtype=dtype),
    "eye": lambda number, dtype: init.eye_(torch.empty(4, 4, dtype=dtype)),
}

OF_ONE = {
    "neg": lambda a, number: -a,
    "mul": lambda a, number: a * number,
    "add": lambda a, number: a + number,
    "rsub": lambda a, number: number - a,
    "div": lambda a, number: a / number,
    "tensor": lambda a, number: a * torch.tensor(number),
    "one": lambda a, number: a * torch.tensor([number], dtype=torch.float64),
    "t": lambda a, number: a.t() if a.dim() == 2 else a,
    "flat": lambda a, number: a.reshape(-1),
    "rows": lambda a, number: a[1:],
    "steps": lambda a, number: a[::2],
    "columns": lambda a, number: a[..., :2],
    "clone": lambda a, number: a.clone(),
    "contiguous": lambda a, number: a.contiguous(),
    "cast": lambda a, number: a.to(DTYPES[NUMBERS.index(number)]),
    "twice": lambda a, number: torch.cat([a, a]),
    "wide": lambda a, number: torch.cat([a, a * number], dim=-1),
    "stack": lambda a, number: torch.stack([a, -a], dim=-1),
}


def copied(a, b):
    if a.shape == b.shape:
        a.copy_(b.clone())


IN_PLACE = {
    "scale": lambda a, b, number: a[1:].mul_(number),
    "shift": lambda a, b, number: a[..., :2].add_(number),
    "negate": lambda a, b, number: a[::2].neg_(),
    "all": lambda a, b, number: a.mul_(number),
    "zero": lambda a, b, number: a[..., 0].zero_(),
    "fill": lambda a, b, number: a[-1].fill_(number),
    "draw": lambda a, b, number: a[:2].normal_(0.0, 0.5),
    "copy": lambda a, b, number: copied(a, b),
    "row": lambda a, b, number: copied(a[0], b[-1]),
    "read": lambda a, b, number: float(a.detach().sum()),
}

Number, Which = st.sampled_from(NUMBERS), st.integers(0, 7)
STEPS = st.one_of(
    st.tuples(st.sampled_from(sorted(NEW)), Number, st.sampled_from(DTYPES)),
    st.tuples(st.sampled_from(sorted(OF_ONE)), Number, Which),
    st.tuples(st.sampled_from(sorted(IN_PLACE)), Number, Which, Which),
)


def program(steps, kept):
    """The body of a model that does the steps, and keeps tensors as parameters, as attributes, or not at all."""

    def build(s):
        pool = [torch.randn(3, 4)]
        for name, number, *which in steps:
            if name in NEW:
                pool.append(NEW[name](number, *which))
            elif name in OF_ONE:
                pool.append(OF_ONE[name](pool[which[0] % len(pool)], number))
            else:
                IN_PLACE[name](*(pool[place % len(pool)] for place in which), number)
        for place, (tensor, how) in enumerate(zip(pool, kept, strict=False)):
            if how and 0 < tensor.numel() <= 64 and tensor.dim():
                setattr(s, f"v{place}", P(tensor) if how == 1 else tensor)

    return build


@pytest.mark.parametrize("by", ORDERS)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    steps=st.lists(STEPS, min_size=1, max_size=8),
    kept=st.lists(st.sampled_from((1, 1, 2, 0)), min_size=9, max_size=9),
)
def test_relations_of_any_program_are_those_of_its_code(by, steps, kept):
    assert differences(program(steps, kept), by) == []
