"""The trainer is the compiled path of LIR on the PDG of Prop. 6: same value, and twice its gradient, step by step."""

import pytest
import torch

from dissonance import inconsistency
from dissonance.gflownets import Backward, Forward, flow_pdg, surprisal_attention
from dissonance.gflownets.bits import bit_strings
from dissonance.gflownets.grids import hyper_grid
from dissonance.gflownets.losses import LOSSES
from dissonance.gflownets.policy import logits
from dissonance.gflownets.trainer import Trainer, TrainingPlan, TrainingRun

DAGS = [hyper_grid(2, 4, "cosine"), bit_strings(3, lambda bits: bits.sum(-1) + 1.0)]


@pytest.mark.parametrize("dag", DAGS, ids=lambda dag: dag.name)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_loss_is_the_inconsistency_and_its_gradient_twice_that_of_lir(loss: str, dag):
    trainer = Trainer(
        [TrainingRun(loss, 3)], [dag], TrainingPlan(batch=12, capacity=40, width=16, depth=2, iterations=9)
    )
    for _ in range(3):
        trainer.theta[:, -1] += 0.3  # log Z is not 0
        tau = trainer.batch()
        value, gradient = trainer.gradient(tau)
        real = torch.arange(dag.longest) < tau.length[0].unsqueeze(-1)
        states = torch.where(real, tau.states[0], dag.states).long()
        rows = torch.cat([states, torch.full((len(states), 1), dag.states)], 1)
        theta = trainer.theta.clone().requires_grad_()
        parts = trainer.shape.split(theta)
        columns = [dag.actions + 1, dag.before.shape[1]]
        tables = logits(parts, dag.active.unsqueeze(0))[0].double().split(columns, 1)
        forward, backward = Forward(dag, tables[0]), Backward(dag, tables[1], partition=LOSSES[loss].learned)
        if LOSSES[loss].learned:
            backward.log_z.data.copy_(parts["log_z"][0])
        pdg = flow_pdg(dag, rows, torch.full((len(rows),), 1 / len(rows)), forward, backward)
        found = inconsistency(pdg, surprisal_attention(loss))
        torch.testing.assert_close(value[0].double(), found.value.detach(), rtol=1e-5, atol=1e-5)
        found.value.backward()
        slopes = [2 * forward.logits.grad, 2 * backward.logits.grad]
        outputs = list(tables)
        if LOSSES[loss].learned:
            outputs.append(parts["log_z"].double())
            slopes.append(2 * backward.log_z.grad.reshape(1))
        (expected,) = torch.autograd.grad(outputs, theta, slopes)
        torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=1e-4)
        trainer.step()
