"""A refocus learned across PDGs by keys and queries, against uniform, hub and partial attention at equal cost.

    python benchmarks/learned_refocus.py                             # trains and tests: minutes
    python benchmarks/learned_refocus.py --policies policies.pt      # keeps what was trained, and tests that again
    python benchmarks/learned_refocus.py --iterations 3 --count 128 --structures 4 --replicates 2

Every arc has a key, made of its table and of its neighbours', and the state has a query, made of all of them; attention
goes by the softmax of their products, as in a transformer, so that a policy does not depend on names, order or number
of arcs. Two policies are trained, by backpropagation through unrolled steps of LIR (natural flow, gamma = 0, inner
problems by mirror descent) on forty thousand random PDGs of 5 binary variables and 7 arcs, each of a structure of its
own, hundreds in a batch:

    weights  attends to all arcs, with weights that have the mean 1: as costly as uniform attention
    place    attends to the arcs at one variable, which it chooses: as costly as hub attention

They are tested on structures that are not in the training, larger ones and the four of the paper, by `lirs` with exact
inner solves. Cost is the number of arcs attended to, added up over the steps. What is reported is the share of the
inconsistency that is left, and its ratio to a rival's, in the geometric mean, with 95 % bootstrap intervals over
structures (of the paper's four, over the PDGs of each).
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from dissonance import PDG, Arc, Focus, Record, SoftmaxTable, Variable, lirs
from dissonance.lir.trace import Trace
from dissonance.refocus import Greedy, Hub, Partial, Refocus, Uniform, weighted
from dissonance.studies.structures import PUBLISHED

FEATURES, WIDTH = 8, 12
LEAST = 1e-6
"""Nats below which an inconsistency counts as resolved: ratios of smaller ones say nothing."""


# -- the policy --------------------------------------------------------------------------------------------------------


class KeysAndQueries(nn.Module):
    """Scores of arcs: the product of a query of the state with the key of each, (N, arcs)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(3 * FEATURES, WIDTH), nn.Tanh())
        self.key = nn.Linear(WIDTH, WIDTH, bias=False)
        self.query = nn.Linear(WIDTH + 1, WIDTH)
        nn.init.zeros_(self.query.weight)  # attention is uniform to begin with
        nn.init.zeros_(self.query.bias)

    def forward(self, features: Tensor, touching: Tensor, time: float) -> Tensor:
        """`features` (N, arcs, FEATURES), `touching` (N, arcs, arcs): which arcs share a variable; time in [0, 1]."""
        near = touching @ features / touching.sum(-1, keepdim=True).clamp(min=1.0)
        everywhere = features.mean(1, keepdim=True).expand_as(features)
        embedded = self.embed(torch.cat([features, near, everywhere], -1))
        state = torch.cat([embedded.mean(1), embedded.new_full((len(embedded), 1), time)], -1)
        return (self.key(embedded) @ self.query(state)[:, :, None])[:, :, 0] / math.sqrt(WIDTH)


def features_of(tables: Tensor, known: Tensor, target: Tensor, source: Tensor, seen: Tensor) -> Tensor:
    """What a policy is told of each arc, (N, arcs, FEATURES); no solve is needed for any of it.

    tables (N, arcs, rows, values); known (N, arcs, rows): which rows there are; target and source (N,
    arcs, variables): 1 where the arc has the variable; seen (N, arcs): the attention of the step before.
    """
    rows = known.sum(-1).clamp(min=1.0)
    entropy = -((tables * tables.clamp(min=1e-9).log()).sum(-1) * known).sum(-1) / rows
    mean = (tables * known[..., None]).sum(-2) / rows[..., None]  # p(t) under uniform sources, (N, arcs, values)
    spread = ((tables - mean[..., None, :]).abs().sum(-1) * known).sum(-1) / rows
    alike = target @ target.mT * (1 - torch.eye(target.shape[1]))  # other arcs into the same variable
    apart = (mean[:, :, None] - mean[:, None]).abs().sum(-1)
    others = alike.sum(-1)
    away = (alike * apart).sum(-1) / others.clamp(min=1.0)
    onward = (target @ source.mT).sum(-1)
    fed = (source @ target.mT).sum(-1)
    unconditional = 1 - source.sum(-1)
    return torch.stack([entropy, spread, away, others, onward, fed, unconditional, seen], -1)


# -- training: thousands of structures in one batch --------------------------------------------------------------------


@dataclass
class Batch:
    """N PDGs of n binary variables and m arcs with at most one source, dense: `entry` says where each cell belongs."""

    tables: Tensor  # (N, m, 2, 2), the second row of an arc without sources unused
    known: Tensor  # (N, m, 2)
    source: Tensor  # (N, m, n)
    target: Tensor
    entry: Tensor  # (N, m, 4, 2^n)

    @classmethod
    def drawn(cls, count: int, variables: int, arcs: int, generator: torch.Generator) -> Batch:
        """Random structures, no arc from one variable to another twice, and random tables."""
        ends = torch.rand(count, variables * (variables + 1), generator=generator).argsort(1)[:, :arcs]
        target, other = ends % variables, ends // variables  # other = variables: no source
        other = torch.where((other < variables) & (other == target), variables, other)
        source = nn.functional.one_hot(other, variables + 1)[..., :variables].float()
        into = nn.functional.one_hot(target, variables).float()
        tables = torch.rand(count, arcs, 2, 2, generator=generator) + 0.02
        tables = tables / tables.sum(-1, keepdim=True)
        known = torch.stack([torch.ones(count, arcs), source.sum(-1)], -1)
        bits = torch.arange(2**variables)[:, None] // 2 ** torch.arange(variables) % 2  # (cells, variables)
        at = 2 * (source @ bits.T.float()) + into @ bits.T.float()  # (N, m, cells)
        return cls(tables, known, source, into, nn.functional.one_hot(at.long(), 4).mT.float())

    def touching(self) -> Tensor:
        """Which arcs share a variable, itself left out."""
        both = self.source + self.target
        return ((both @ both.mT) > 0).float() * (1 - torch.eye(both.shape[1]))

    def solve(self, log_p: Tensor, beta: Tensor, log_mu: Tensor, steps: int) -> tuple[Tensor, Tensor, Tensor]:
        """Mirror descent on sum_a beta_a KL_a from a given log mu: log mu, mu(t|s) (N, m, 2, 2), and every KL_a."""
        rate = 1 / beta.sum(-1, keepdim=True).clamp(min=1e-3)
        for _ in range(steps):
            log_q, _ = self.conditionals(log_mu)
            slope = ((beta[..., None] * (log_q - log_p).flatten(2))[:, :, None] @ self.entry).sum(1)[:, 0]
            log_mu = torch.log_softmax(log_mu - rate * slope, -1)
        log_q, joint = self.conditionals(log_mu)
        return log_mu, log_q.exp(), (joint * (log_q - log_p)).sum((-1, -2))

    def conditionals(self, log_mu: Tensor) -> tuple[Tensor, Tensor]:
        """log mu(t|s) and mu(s,t) of every arc, (N, m, 2, 2) each."""
        joint = (self.entry @ log_mu.exp()[:, None, :, None])[..., 0].unflatten(-1, (2, 2))
        kept = joint.clamp(min=1e-9)
        return (kept / kept.sum(-1, keepdim=True)).log(), joint


def unrolled(batch: Batch, policy: KeysAndQueries, place: bool, steps: int, inner: int) -> tuple[Tensor, Tensor]:
    """The share of the inconsistency that is left after steps of LIR under the policy, and what there was, (N,)."""
    tables, m = batch.tables, batch.tables.shape[1]
    ones, touching = torch.ones(len(tables), m), batch.touching()
    start = torch.full((len(tables), batch.entry.shape[-1]), -math.log(batch.entry.shape[-1]))
    log_mu, _, parts = batch.solve(tables.log(), ones, start, 4 * inner)
    first, seen, near = parts.sum(-1), torch.zeros_like(ones), batch.source + batch.target
    for t in range(steps):
        score = policy(features_of(tables, batch.known, batch.target, batch.source, seen), touching, t / steps)
        if place:
            by_variable = near.mT @ torch.softmax(score, -1)[..., None]  # (N, n, 1)
            there = nn.functional.gumbel_softmax(by_variable[..., 0].clamp(min=1e-9).log(), hard=True)
            beta = (near @ there[..., None])[..., 0]
        else:
            beta = m * torch.softmax(score, -1)
        log_mu, q, _ = batch.solve(tables.log(), beta, log_mu if not place else start, inner * (1 + place))
        stay = torch.exp(-beta)[..., None, None]
        tables = (q + (tables - q) * stay).clamp(min=1e-6)
        seen = beta
    _, _, parts = batch.solve(tables.log(), ones, start, 4 * inner)
    return parts.sum(-1).clamp(min=0.0) / first.clamp(min=1e-3), first


def trained(place: bool, iterations: int, count: int, seed: int) -> KeysAndQueries:
    """A policy after so many batches of fresh PDGs; Adam on the mean share that is left."""
    torch.manual_seed(seed)
    policy, generator = KeysAndQueries(), torch.Generator().manual_seed(seed)
    adam = torch.optim.Adam(policy.parameters(), 0.02)
    steps, inner = (5, 20) if place else (2, 20)
    for i in range(iterations):
        batch = Batch.drawn(count, 5, 7, generator)
        left, first = unrolled(batch, policy, place, steps, inner)
        loss = ((left + 1e-4).log() * (first > 0.02)).mean()
        if not torch.isfinite(loss):
            raise SystemExit(f"the loss of batch {i} is {loss.item()}: training has failed.")
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        adam.step()
        if i % 10 == 0 or i == iterations - 1:
            print(f"  {'place' if place else 'weights'} {i:4d}  log share left {loss.item():.4f}", flush=True)
    return policy.double().eval()


# -- the policy as a refocus -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KeyedRefocus:
    """A trained policy as a refocus: it is told the tables there are and what was attended to last."""

    policy: KeysAndQueries
    place: bool
    steps: int
    name: str = "keys and queries"

    def __call__(self, pdg: PDG, step: int, generator: np.random.Generator, trace: Trace) -> Focus:
        """All arcs with weights of mean 1, or the arcs at the variable drawn."""
        names = [a.name for a in pdg]
        index = {v.name: i for i, v in enumerate(pdg.variables)}
        source, target = torch.zeros(2, 1, len(names), len(index), dtype=torch.float64)
        widest = max(v.size for v in pdg.variables)
        tables = torch.zeros(1, len(names), widest, widest, dtype=torch.float64)
        known = torch.zeros(1, len(names), widest, dtype=torch.float64)
        for k, a in enumerate(pdg):
            p = torch.softmax(trace.theta[f"{a.name}.logits"].detach(), -1).reshape(-1, a.targets[0].size)
            tables[0, k, : len(p), : p.shape[1]] = p
            known[0, k, : len(p)] = 1.0
            for v in a.sources:
                source[0, k, index[v.name]] = 1.0
            target[0, k, index[a.targets[0].name]] = 1.0
        last = trace.rows[-1].beta if trace.rows else {}
        seen = torch.tensor([[last.get(n, 0.0) for n in names]], dtype=torch.float64)
        near = source + target
        touching = ((near @ near.mT) > 0).double() * (1 - torch.eye(len(names)))
        with torch.no_grad():
            features = features_of(tables, known, target, source, seen)
            share = torch.softmax(self.policy(features, touching, min(step / self.steps, 1.0)), -1)[0]
        if not self.place:
            return weighted(trace.base, dict(zip(names, (len(names) * share).tolist(), strict=True)))
        weights = (near[0].T @ share).numpy()
        chosen = int(generator.choice(len(weights), p=weights / weights.sum()))
        return weighted(
            trace.base, {n: 1.0 for n, here in zip(names, near[0, :, chosen].tolist(), strict=True) if here}
        )


def contested(pdg: PDG, step: int, generator: np.random.Generator, trace: Trace) -> Focus:
    """A rule made by hand, to compare with: all arcs, by how many others speak of the same target (and 0.1)."""
    into = [a.targets[0].name for a in pdg]
    weight = {a.name: into.count(a.targets[0].name) - 0.9 for a in pdg}
    mean = sum(weight.values()) / len(weight)
    return weighted(trace.base, {n: w / mean for n, w in weight.items()})


def more(pdg: PDG, step: int, generator: np.random.Generator, trace: Trace) -> Focus:
    """All arcs with weight 1.2: what more attention, or as much more control, would buy."""
    return weighted(trace.base, {a.name: 1.2 for a in pdg})


# -- the test ----------------------------------------------------------------------------------------------------------


def unseen(structures: int, replicates: int, seed: int) -> dict[str, list[list[PDG]]]:
    """Structures that are not in the training, by kind: lists of PDGs of one structure each."""
    generator = torch.Generator().manual_seed(seed)
    smaller, larger = (
        [random_pdgs(n, m, replicates, generator) for _ in range(structures)] for n, m in ((4, 6), (7, 10))
    )
    paper = [[s.draw("uniform-normalised", generator) for _ in range(4 * replicates)] for s in PUBLISHED]
    return {"4 variables, 6 arcs": smaller, "7 variables, 10 arcs": larger, "the paper's four": paper}


def random_pdgs(variables: int, arcs: int, replicates: int, generator: torch.Generator) -> list[PDG]:
    """One random structure of variables with 2 or 3 values; tables drawn anew for each PDG."""
    sizes = (2 + torch.randint(2, (variables,), generator=generator)).tolist()
    batch = Batch.drawn(1, variables, arcs, generator)
    own = [Variable(f"X{i}", k) for i, k in enumerate(sizes)]
    ends = [
        ([v for v, x in zip(own, s, strict=True) if x], next(v for v, x in zip(own, t, strict=True) if x))
        for s, t in zip(batch.source[0].tolist(), batch.target[0].tolist(), strict=True)
    ]
    made: list[PDG] = []
    for _ in range(replicates):
        arcs_of: list[Arc] = []
        for k, (s, t) in enumerate(ends):
            p = torch.rand([v.size for v in (*s, t)], generator=generator, dtype=torch.float64) + 0.02
            arcs_of.append(Arc(f"p{k}", s, t, SoftmaxTable(p / p.sum(-1, keepdim=True))))
        made.append(PDG(*arcs_of))
    return made


def spent(pdgs: Sequence[PDG], refocus: Refocus, steps: int) -> list[list[tuple[int, float]]]:
    """Of each run (arcs attended to so far, inconsistency left) at every step."""
    runs = lirs(list(pdgs), refocus, steps=steps, seeds=list(range(len(pdgs))), trace=Record())
    found: list[list[tuple[int, float]]] = []
    for run in runs:
        cost, course = 0, []
        for row in run.trace.rows:
            course.append((cost, max(row.global_upper, LEAST)))
            cost += len(row.beta)
        found.append(course)
    return found


def at_cost(course: Sequence[tuple[int, float]], budget: int) -> float:
    """The log of the share left after the last step that the budget allows."""
    return math.log([left for cost, left in course if cost <= budget][-1] / course[0][1])


def interval(groups: Sequence[np.ndarray], seed: int = 0) -> str:
    """exp of the mean, and of the ends of its 95 % bootstrap interval: over groups, or within few of them."""
    random, means = np.random.default_rng(seed), []
    for _ in range(2000):
        if len(groups) > 4:
            drawn = [groups[i] for i in random.integers(len(groups), size=len(groups))]
        else:
            drawn = [g[random.integers(len(g), size=len(g))] for g in groups]
        means.append(np.concatenate(drawn).mean())
    low, high = np.exp(np.quantile(means, [0.025, 0.975]))
    return f"{math.exp(np.concatenate(groups).mean()):8.4f} [{low:.4f}, {high:.4f}]"


def compare(groups: Sequence[Sequence[PDG]], sides: dict[str, tuple[Refocus, int]], rounds: float) -> None:
    """A block of the table: what each side leaves for as many arcs as `rounds` of uniform attention cost."""
    lefts: dict[str, list[np.ndarray]] = {name: [] for name in sides}
    first = next(iter(sides))
    for pdgs in groups:
        budget = int(rounds * len(pdgs[0].arcs))
        courses = {name: spent(pdgs, refocus, steps) for name, (refocus, steps) in sides.items()}
        kept = [i for i, c in enumerate(courses[first]) if c[0][1] > 1e-3]  # what is consistent has no share
        if kept:
            for name, each in courses.items():
                lefts[name].append(np.array([at_cost(each[i], budget) for i in kept]))
    for name, left in lefts.items():
        line = f"  {name:22}{sum(map(len, left)):5d}  {interval(left)}"
        if name != first:
            line += f"   {interval([a - b for a, b in zip(lefts[first], left, strict=True)])}"
        print(line, flush=True)


def policies(path: str | None, iterations: int, count: int, seed: int) -> list[KeysAndQueries]:
    """The two policies, from the file if it is there."""
    if path is not None and Path(path).exists():
        found = [KeysAndQueries().double().eval() for _ in range(2)]
        for policy, state in zip(found, torch.load(path), strict=True):
            policy.load_state_dict(state)
        return found
    began = time.process_time()
    found = [trained(place, iterations, count, seed + place) for place in (False, True)]
    print(f"trained in {time.process_time() - began:.0f} s of one core")
    if path is not None:
        torch.save([policy.state_dict() for policy in found], path)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=80, help="batches of the training")
    parser.add_argument("--count", type=int, default=512, help="PDGs in a batch")
    parser.add_argument("--structures", type=int, default=15, help="random structures of each size of the test")
    parser.add_argument(
        "--replicates", type=int, default=6, help="PDGs of each of them; four times as many of the paper's"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--policies", help="a file to keep the policies in, or to take them from")
    options = parser.parse_args()
    torch.set_num_threads(1)
    weights, place = policies(options.policies, options.iterations, options.count, options.seed)
    print(f"{'':24}{'PDGs':>5}  share left, 95 %              learned / it, 95 %")
    for kind, groups in unseen(options.structures, options.replicates, options.seed + 100).items():
        print(f"{kind}: all arcs, 2 steps")
        wide: dict[str, tuple[Refocus, int]] = {
            "learned weights": (KeyedRefocus(weights, False, 2), 2),
            "uniform": (Uniform(), 2),
            "by hand: contested": (contested, 2),
            "1.2 on all arcs": (more, 2),
        }
        compare(groups, wide, 2)
        print(f"{kind}: the arcs at a variable, for as many arcs as 3 steps of uniform attention")
        most = 3 * max(len(pdgs[0].arcs) for pdgs in groups)
        sides: dict[str, tuple[Refocus, int]] = {
            "learned place": (KeyedRefocus(place, True, 5), most),
            "hub": (Hub(), most),
            "partial": (Partial(), 7),
            "greedy, which sees all": (Greedy(), most),
            "uniform": (Uniform(), 3),
        }
        compare(groups, sides, 3)
    print(f"{time.process_time():.0f} s of one core in all")


if __name__ == "__main__":
    main()
