"""Runs trained side by side: each as if alone, resumable, and at last where the reward is."""

import weakref
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dissonance.errors import CapabilityError, DissonanceError, FormatError
from dissonance.gflownets.bits import bit_strings
from dissonance.gflownets.grids import hyper_grid
from dissonance.gflownets.losses import LOSSES
from dissonance.gflownets.optimiser import AdamW, Rates
from dissonance.gflownets.policy import PolicyShape, logits
from dissonance.gflownets.replay import Replay
from dissonance.gflownets.trainer import Trainer, TrainingPlan, TrainingRun
from dissonance.gflownets.training import train
from dissonance.gflownets.trajectories import Trajectories, TransitionRows
from dissonance.io import sealed

GRID = hyper_grid(2, 6, "original")
SMALL = TrainingPlan(iterations=30, batch=32, capacity=100, width=16, depth=2)


def test_a_run_in_a_batch_is_the_run_alone():
    runs = [TrainingRun(loss, seed, clamp=clamp) for loss, seed, clamp in (("TB", 3, "none"), ("ModLPV", 4, "batch"))]
    graphs = [GRID, hyper_grid(2, 6, "cosine")]
    together, record = train(runs, graphs, SMALL)
    for i, run in enumerate(runs):
        alone, single = train([run], [graphs[i]], SMALL)
        torch.testing.assert_close(single.losses[0], record.losses[i], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(alone.theta[0], together.theta[i], rtol=1e-4, atol=1e-5)


def test_a_run_that_diverges_does_not_disturb_the_others():
    tame = TrainingRun("TB", 1)
    alone, _ = train([tame], GRID, SMALL)
    wild = Trainer([tame, TrainingRun("TB", 2)], [GRID, GRID], SMALL)
    wild.theta[1] *= 1e30
    for _ in range(SMALL.iterations):
        wild.step()
    torch.testing.assert_close(wild.theta[0], alone.theta[0], rtol=1e-4, atol=1e-5)
    assert wild.stuck.tolist() == [0, SMALL.iterations]


def test_gradients_are_those_of_a_network_written_with_torch():
    trainer = Trainer([TrainingRun("ModTB", 5)], [GRID], SMALL)
    tau = trainer.batch()
    shape, parts = trainer.shape, trainer.parts
    layers = [
        torch.nn.Linear(GRID.inputs, 16),
        torch.nn.Linear(16, 16),
        torch.nn.Linear(16, shape.moves + shape.parents),
    ]
    weights = [(parts["input"][0], parts["input_bias"][0]), (parts["hidden"][0, 0], parts["hidden_bias"][0, 0])]
    weights.append((parts["heads"][0], parts["heads_bias"][0]))
    for layer, (weight, bias) in zip(layers, weights, strict=True):
        layer.weight.data, layer.bias.data = weight.T.clone(), bias.clone()
    network = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2])
    log_z = torch.zeros((), requires_grad=True)
    losses = []
    for i in range(SMALL.batch):
        n = int(tau.length[0, i])
        score = log_z - GRID.log_reward[tau.states[0, i, n - 1]].float()
        for t in range(n):
            state, move = int(tau.states[0, i, t]), int(tau.moves[0, i, t])
            x = torch.zeros(GRID.inputs)
            x[GRID.active[state]] = 1
            out = network(x)
            allowed = [bool(a >= 0) for a in GRID.after[state]] + [bool(GRID.exits[state])]
            forward = out[: shape.moves].masked_fill(~torch.tensor(allowed), float("-inf")).log_softmax(0)
            score = score + forward[move]
            if t > 0:
                backward = out[shape.moves :].masked_fill(GRID.before[state] < 0, float("-inf")).log_softmax(0)
                before = int(tau.states[0, i, t - 1])
                score = score - backward[(GRID.before[state] == before).nonzero()[0, 0]]
        losses.append(score**2 / n)
    expected = torch.stack(losses).mean()
    expected.backward()
    loss, gradient = trainer.gradient(tau)
    found = shape.split(gradient)
    torch.testing.assert_close(loss[0], expected.detach(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found["log_z"][0], log_z.grad, rtol=1e-4, atol=1e-4)
    for part, layer in (("input", layers[0]), ("heads", layers[2])):
        torch.testing.assert_close(found[part][0], layer.weight.grad.T, rtol=1e-3, atol=1e-4)


def test_the_optimiser_is_adamw_after_a_clip_of_the_norm():
    theta = torch.randn(2, 7, generator=torch.Generator().manual_seed(0))
    columns = {
        "learning": [1e-2, 3e-3],
        "beta2": [0.99, 0.999],
        "clip": [0.5, 10.0],
        "log_z": [1.0, 1.0],
        "decay": [0.1] * 2,
    }
    ours = AdamW.fresh(Rates.of(columns, "cpu"), theta)
    theirs = [torch.nn.Parameter(row.clone()) for row in theta]
    adams = [
        torch.optim.AdamW([p], lr=columns["learning"][i], betas=(0.9, columns["beta2"][i]), weight_decay=0.1)
        for i, p in enumerate(theirs)
    ]
    for k in range(20):
        gradient = torch.randn(2, 7, generator=torch.Generator().manual_seed(k + 1))
        ours.step(theta, gradient, 1.0)
        for i, (p, adam) in enumerate(zip(theirs, adams, strict=True)):
            p.grad = gradient[i].clone()
            torch.nn.utils.clip_grad_norm_([p], columns["clip"][i])
            adam.step()
    torch.testing.assert_close(theta, torch.stack([p.data for p in theirs]), rtol=1e-5, atol=1e-6)


def test_log_z_learns_at_its_own_rate():
    columns = {"learning": [1e-2], "beta2": [0.99], "clip": [1e9], "log_z": [50.0], "decay": [0.1]}
    theta = torch.randn(1, 4, generator=torch.Generator().manual_seed(0))
    weights, log_z = torch.nn.Parameter(theta[0, :-1].clone()), torch.nn.Parameter(theta[0, -1:].clone())
    theirs = torch.optim.AdamW(
        [{"params": [weights]}, {"params": [log_z], "lr": 0.5}], lr=1e-2, betas=(0.9, 0.99), weight_decay=0.1
    )
    ours = AdamW.fresh(Rates.of(columns, "cpu"), theta)
    for k in range(5):
        gradient = torch.randn(1, 4, generator=torch.Generator().manual_seed(k + 1))
        ours.step(theta, gradient, 1.0)
        weights.grad, log_z.grad = gradient[0, :-1].clone(), gradient[0, -1:].clone()
        theirs.step()
    torch.testing.assert_close(theta[0], torch.cat([weights, log_z]).detach(), rtol=1e-5, atol=1e-6)


def test_a_gradient_that_is_not_finite_is_passed_over():
    columns = {"learning": [1e-2] * 2, "beta2": [0.9] * 2, "clip": [1.0] * 2, "log_z": [1.0] * 2, "decay": [0.1] * 2}
    theta = torch.ones(2, 3)
    optimiser = AdamW.fresh(Rates.of(columns, "cpu"), theta)
    for k, last in enumerate((1.0, float("inf"), float("nan"), 1.0)):
        before = theta.clone()
        moved = optimiser.step(theta, torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, last]]), 1.0)
        assert moved.tolist() == [True, k in (0, 3)]
        assert (theta[1] != before[1]).any() == (k in (0, 3))
        assert (theta[0] != before[0]).all()
    assert theta.isfinite().all() and optimiser.adam.mean.isfinite().all() and optimiser.adam.square.isfinite().all()


def test_the_learning_rate_falls_like_that_of_torch(monkeypatch: pytest.MonkeyPatch):
    plan = replace(SMALL, iterations=5)
    shares: list[float] = []
    step = AdamW.step

    def noted(self: AdamW, theta: torch.Tensor, gradient: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        shares.append(float(share))
        return step(self, theta, gradient, share)

    monkeypatch.setattr(AdamW, "step", noted)
    train([TrainingRun()], GRID, plan)
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.01, total_iters=plan.iterations)
    expected: list[float] = []
    for _ in range(plan.iterations):
        expected.append(schedule.get_last_lr()[0])
        optimiser.step()
        schedule.step()
    assert shares == pytest.approx(expected)


def test_a_training_that_was_stopped_goes_on_to_the_same_end(tmp_path: Path):
    runs = [TrainingRun("ModTB", 1), TrainingRun("LPV", 2)]
    whole, record = train(runs, GRID, SMALL, every=10)

    class StoppedError(Exception):
        pass

    def stop(done: int, _: int) -> None:
        if done == 17:
            raise StoppedError

    with pytest.raises(StoppedError):
        train(runs, GRID, SMALL, every=10, checkpoint=tmp_path / "c.pt", keep_every=5, progress=stop)
    resumed, again = train(runs, GRID, SMALL, every=10, checkpoint=tmp_path / "c.pt")
    assert torch.equal(resumed.theta, whole.theta)
    assert torch.equal(again.losses, record.losses)
    assert again.iterations == record.iterations == [10, 20, 30]
    assert again.last("l1") == record.last("l1")
    with pytest.raises(FormatError, match="other runs"):
        train([replace(runs[0], seed=9), runs[1]], GRID, SMALL, checkpoint=tmp_path / "c.pt")
    with pytest.raises(FormatError, match="other plan"):
        train(runs, GRID, replace(SMALL, iterations=40), checkpoint=tmp_path / "c.pt")
    with pytest.raises(FormatError, match="other graphs"):
        train(runs, hyper_grid(2, 6, "cosine"), SMALL, checkpoint=tmp_path / "c.pt")
    with pytest.raises(FormatError, match="other graphs"):
        train(runs, replace(GRID, log_reward=GRID.log_reward + 0.1), SMALL, checkpoint=tmp_path / "c.pt")
    state = sealed.read_state(tmp_path / "c.pt", "a checkpoint")
    sealed.write_state(tmp_path / "c.pt", state | {"theta": state["theta"][:1]})
    with pytest.raises(FormatError, match="theta of shape"):
        train(runs, GRID, SMALL, checkpoint=tmp_path / "c.pt")
    damaged = bytearray((tmp_path / "c.pt").read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (tmp_path / "c.pt").write_bytes(damaged)
    with pytest.raises(FormatError, match="is damaged"):
        train(runs, GRID, SMALL, checkpoint=tmp_path / "c.pt")
    (tmp_path / "c.pt").write_bytes(b"torn")
    with pytest.raises(FormatError, match="not a checkpoint"):
        train(runs, GRID, SMALL, checkpoint=tmp_path / "c.pt")


def test_a_trainer_that_is_restored_has_the_state_it_was_given():
    first, second = (Trainer([TrainingRun("TB", 1), TrainingRun("LPV", 2)], [GRID] * 2, SMALL) for _ in range(2))
    for _ in range(3):
        first.step()
    first.stuck += torch.tensor([0, 2])
    known = first.state()
    second.restore(known)
    for name in ("iteration", "theta", "mean", "square", "replay", "generators", "visited", "stuck"):
        torch.testing.assert_close(second.state()[name], known[name], rtol=0, atol=0)
    inside = torch.arange(GRID.longest) < first.replay.kept.length.unsqueeze(-1)
    assert torch.equal(second.replay.kept.states[inside], first.replay.kept.states[inside])
    assert second.adam.steps == 3 and 0 < int(known["visited"].sum()) < known["visited"].numel()


def test_a_training_is_refused_the_checkpoint_of_one_that_is_at_work(tmp_path: Path):
    plan = replace(SMALL, iterations=2)

    def meanwhile(_: int, __: int) -> None:
        with pytest.raises(DissonanceError, match=r"c\.pt: another command is at work on it"):
            train([TrainingRun()], GRID, plan, checkpoint=tmp_path / "c.pt")

    train([TrainingRun()], GRID, plan, checkpoint=tmp_path / "c.pt", keep_every=1, progress=meanwhile)
    assert [p.name for p in tmp_path.iterdir()] == ["c.pt"]


def test_a_checkpoint_that_cannot_be_written_is_one_line(tmp_path: Path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(DissonanceError, match=r"c.pt: cannot be written: \w.*\.$") as said:
        train([TrainingRun()], GRID, replace(SMALL, iterations=1), checkpoint=tmp_path / "file" / "c.pt")
    assert "\n" not in str(said.value)


def test_replay_holds_the_latest_and_repeats_none_of_them():
    replay = Replay.empty(2, 10, 1, "cpu")
    generator = torch.Generator().manual_seed(0)
    for first in range(0, 20, 4):
        marked = torch.arange(first, first + 4, dtype=torch.int32).expand(2, -1).unsqueeze(-1)
        replay.add(Trajectories(marked, marked, torch.ones(2, 4, dtype=torch.int64)))
        there = set(range(max(0, first - 6), first + 4))
        some, all_of_them = (replay.draw(n, torch.rand(2, 10, generator=generator)) for n in (3, min(10, first + 4)))
        for run in range(2):
            assert set(all_of_them.states[run, :, 0].tolist()) == there
            assert len(set(some.states[run, :, 0].tolist())) == 3


def test_the_share_that_is_replayed_comes_from_former_policies():
    trainer = Trainer([TrainingRun(seed=0)], [GRID], replace(SMALL, batch=40, replayed=0.25))
    trainer.batch()
    former = set(map(tuple, trainer.replay.kept.moves[0, :40].tolist()))
    trainer.parts["heads_bias"][:, trainer.walk.exit] += 100  # from now on every walk exits at once
    tau = trainer.batch()
    assert tau.length[0, :30].eq(1).all()
    assert tau.length[0, 30:].gt(1).any()
    assert set(map(tuple, tau.moves[0, 30:][tau.length[0, 30:] > 1].tolist())) <= former


def test_trajectories_follow_the_moves_allowed_and_rows_lay_them_end_to_end():
    strings = bit_strings(4, lambda bits: bits.sum(-1) + 1.0)
    trainer = Trainer([TrainingRun(seed=0), TrainingRun(seed=1)], [strings, strings], SMALL)
    tau = trainer.batch()
    rows = TransitionRows.of(trainer.walk, tau)
    assert tau.length.eq(5).all()
    for run in range(2):
        for i in range(SMALL.batch):
            here = strings.start
            for t in range(5):
                assert tau.states[run, i, t] == here == rows.states[run, 5 * i + t]
                move = int(tau.moves[run, i, t])
                if t < 4:
                    here = int(strings.after[here, move])
                    undone = int(rows.undone[run, 5 * i + t + 1])
                    assert strings.before[here, undone] == tau.states[run, i, t]
            assert move == strings.actions
    torch.testing.assert_close(rows.total(torch.ones(rows.states.shape)), tau.length.float())


def test_the_policies_of_every_loss_approach_the_reward():
    grid = hyper_grid(2, 8, "original")
    plan = TrainingPlan(iterations=400, batch=128, capacity=1000, width=64, depth=2)
    _, record = train([TrainingRun(loss, seed=0, learning_rate=5e-3) for loss in LOSSES], grid, plan)
    assert max(record.last("l1")) < 0.05
    assert min(record.last("coverage")) == 1


def test_the_whole_network_is_evaluated_where_states_are_few_and_at_rows_where_they_are_many():
    shape = PolicyShape.of(GRID, 16, 2)
    parts = shape.split(shape.fresh([0, 1]))
    everywhere = logits(parts, GRID.active.expand(2, -1, -1))
    some = torch.tensor([[3, 5], [7, 0]])
    torch.testing.assert_close(logits(parts, GRID.active[some]), everywhere[torch.tensor([[0], [1]]), some])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TrainingRun("TBB"), "unknown loss"),
        (lambda: TrainingRun(clamp="mean"), "unknown clamp"),
        (lambda: TrainingRun(learning_rate=0.0), "learning_rate = 0.0"),
        (lambda: TrainingRun(beta2=1.0), "beta2 = 1.0"),
        (lambda: TrainingPlan(iterations=0), "0 iterations"),
        (lambda: TrainingPlan(capacity=10), "below the batch size"),
        (lambda: TrainingPlan(replayed=1.0), "share of 1.0"),
        (lambda: Trainer([TrainingRun()], []), "give each run its graph"),
        (lambda: Trainer([TrainingRun(), TrainingRun()], [GRID, hyper_grid(2, 7, "original")]), "different graphs"),
        (lambda: Trainer([TrainingRun()], [GRID], TrainingPlan(width=0)), "of width 0"),
    ],
)
def test_bad_settings_are_refused(make, message: str):
    with pytest.raises(DissonanceError, match=message):
        make()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused():
    with pytest.raises(CapabilityError, match="no CUDA device"):
        Trainer([TrainingRun()], [GRID], SMALL, "cuda")


def test_a_trainer_that_nobody_holds_leaves_its_memory_at_once():
    trainer = Trainer([TrainingRun()], [GRID], SMALL)
    trainer.step()
    gone = weakref.ref(trainer)
    del trainer
    assert gone() is None
