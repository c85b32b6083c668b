"""Threads that read one PDG do not see each other."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from dissonance import PDG, Arc, Attention, CapabilityError, SoftmaxTable, Variable, inconsistency
from dissonance.cpds.held import Held, HeldByOne
from dissonance.solvers.convex import program
from dissonance.solvers.convex.program import structure

TRIALS = 1000

X, Y = Variable("X", 2), Variable("Y", 3)


@pytest.fixture
def eager():
    """Threads take turns as often as can be."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def side_by_side(*work: Callable[[], None]) -> None:
    failed: list[BaseException] = []

    def guarded(one: Callable[[], None]) -> None:
        try:
            one()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(one,)) for one in work]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failed:
        raise failed[0]


def test_two_threads_evaluate_one_pdg_at_different_parameters(eager):
    pdg = PDG(
        Arc("p", X, Y, SoftmaxTable([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])),
        Arc("q", (), X, [0.5, 0.5]),
        Arc("r", (), Y, [0.3, 0.3, 0.4]),
    )
    own = pdg["p"].cpd.logits
    before = own.detach().clone()
    settings = [torch.zeros(2, 3), torch.tensor([[0.0, 1, 2], [2, 1, 0]])]
    thetas = [{"p.logits": x.double()} for x in settings]
    wanted = [inconsistency(pdg, theta=t).upper for t in thetas]
    here = inconsistency(pdg).upper

    def work(k: int) -> Callable[[], None]:
        def one() -> None:
            for _ in range(TRIALS // 2):
                assert inconsistency(pdg, theta=thetas[k]).upper == wanted[k]
                assert pdg["p"].log_table(thetas[k]).exp().sum() == pytest.approx(2.0)

        return one

    def plain() -> None:
        for _ in range(TRIALS // 2):
            assert inconsistency(pdg).upper == here

    side_by_side(work(0), work(1), plain)
    assert pdg["p"].cpd.logits is own
    assert torch.equal(own, before)


def test_structures_are_remembered_by_many_threads(eager, monkeypatch: pytest.MonkeyPatch):
    """More of them than are kept, so that threads also forget."""
    from dissonance.problem import prepare

    chains = [[Variable(f"V{i}", 2) for i in range(n)] for n in range(2, 6)]
    pdgs = [
        PDG(*(Arc(f"p{i}", a, b, [[0.9, 0.1], [0.2, 0.8]]) for i, (a, b) in enumerate(pairwise(c)))) for c in chains
    ]
    parts = [prepare(p, Attention.uniform(p)).parts[0] for p in pdgs]
    monkeypatch.setattr(program, "MOST_STRUCTURES", 2)

    def work() -> None:
        for k in range(TRIALS // 4):
            c = parts[k % len(parts)]
            assert structure(c.shape, c.tree, c.hard[0], False).tree is c.tree

    side_by_side(work, work, work)


# -- a module at other parameters --------------------------------------------------------------------------------------


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(1, 1, bias=False)
        self.again = self.inner
        self.register_buffer("shift", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.again(self.inner(x)) + self.shift


def test_a_module_is_had_at_other_parameters_and_stays_what_it_is():
    net, x = Twice(), torch.ones(1, 1)
    before = dict(net.state_dict())
    weight, shift = torch.tensor([[3.0]], requires_grad=True), torch.tensor([1.0])
    moved = Held(net, "a").at({"a.inner.weight": weight, "a.shift": shift})
    found = moved(x)
    assert float(found.detach()) == 10.0
    found.backward()
    assert weight.grad is not None and float(weight.grad) == 6.0
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    assert Held(net, "a").at({}) is net


class Wrapped(nn.Module):
    """As `torch.compile` does it: a forward that is bound to the module it was made of."""

    def __init__(self, inner: nn.Module, name: str) -> None:
        super().__init__()
        self.add_module(name, inner)
        self.forward = lambda x: inner(x)


class Bound(nn.Module):
    """A method that is kept as an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(1, 1, bias=False)
        self.make = self.inner.forward

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.make(x)


@pytest.mark.parametrize("module", [Wrapped(nn.Linear(1, 1, bias=False), "_orig_mod"), Bound()])
def test_what_is_bound_to_a_module_is_had_at_other_parameters(module):
    held = Held(nn.Sequential(module))
    (key,) = held.tensors
    assert float(held.at({key: torch.tensor([[3.0]])})(torch.ones(1, 1))) == 3.0


def test_a_module_that_cannot_be_had_at_other_parameters_is_refused():
    held = Held(nn.Sequential(Wrapped(nn.Linear(1, 1, bias=False), "inner")))
    (key,) = held.tensors
    with pytest.raises(CapabilityError, match="forward"):
        held.at({key: torch.tensor([[3.0]])})


# -- copies of a module that are used again ----------------------------------------------------------------------------


class Layer(nn.Module):
    """A layer that drops out while it trains, and can be asked for what it computes later."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Dropout(1.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)

    def later(self, x: torch.Tensor) -> Callable[[], torch.Tensor]:
        return lambda: self.inner(x)

    def again(self, x: torch.Tensor) -> torch.Tensor:
        """Computed a second time when it is differentiated."""
        found = checkpoint(self.inner, x, use_reentrant=False)
        assert isinstance(found, torch.Tensor)
        return found

    def marked(self, x: torch.Tensor) -> torch.Tensor:
        self.last = x
        return self.inner(x)


KEY, ONE = "inner.0.weight", torch.ones(1, 1)


def weight(value: float) -> dict[str, torch.Tensor]:
    return {KEY: torch.tensor([[value]], requires_grad=True)}


def test_a_copy_is_as_the_module_is_by_then():
    held = Held(Layer().eval())
    assert held.call(weight(3.0), "forward", ONE).item() == 3.0
    held.module.train()
    assert held.call(weight(4.0), "forward", ONE).item() == 0.0  # all of it dropped out
    held.module.eval().inner.append(nn.Linear(1, 1).requires_grad_(False))
    nn.init.constant_(held.module.inner[2].weight, 2.0)
    nn.init.constant_(held.module.inner[2].bias, 1.0)
    assert held.call(weight(4.0), "forward", ONE).item() == 9.0
    theta = weight(5.0)
    alive = weakref.ref(theta[KEY])
    held.call(theta, "forward", ONE)
    del theta
    assert alive() is None  # nothing keeps theta


def test_a_copy_that_somebody_refers_to_does_not_change():
    held = Held(Layer().eval())
    later = held.call(weight(3.0), "later", ONE)
    assert held.call(weight(5.0), "forward", ONE).item() == 5.0
    assert later().item() == 3.0
    first, second = weight(3.0), weight(5.0)
    found = held.call(first, "again", ONE)
    assert held.call(second, "again", ONE).item() == 5.0
    x = torch.full((1, 1), 2.0, requires_grad=True)
    across = held.call(first, "again", x)
    held.call(second, "forward", ONE)
    across.backward()
    assert x.grad is not None and float(x.grad) == 3.0
    found.backward()
    given = first[KEY].grad
    assert given is not None and float(given) == 3.0  # 2 and 1: where it was computed
    held.call(first, "marked", ONE)
    assert "last" not in vars(held.module) and "last" not in vars(held.at(first))


def test_the_copy_of_a_single_user_is_filled_in_anew_and_nothing_is_left_of_the_theta_before():
    held = HeldByOne(Layer().eval())
    first = held.at(weight(3.0))
    assert first.marked(ONE).item() == 3.0 and hasattr(first, "last")
    second = held.at(weight(5.0))
    assert second is first and second(ONE).item() == 5.0 and not hasattr(second, "last")
    assert held.at({}) is held.module and "last" not in vars(held.module)
    held.module.train()
    assert held.at(weight(4.0))(ONE).item() == 0.0  # it is as the module is by then: all of it dropped out


def test_copies_of_one_module_serve_many_threads(eager):
    held = Held(Layer().eval())

    def work(value: float) -> Callable[[], None]:
        def one() -> None:
            for _ in range(TRIALS // 4):
                assert held.call(weight(value), "forward", ONE).item() == value

        return one

    side_by_side(*(work(float(k)) for k in range(3)))
