"""gfnx on one environment, in a Python of its own: `benchmarks/environments.py --gfnx PYTHON` starts this and asks it.

It answers on standard output, a JSON object a line. Of every number n on standard input: n iterations of trajectory
balance in one compiled loop, as gfnx's own baselines do, and the processor time; of "policy": log P_F at all states.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import equinox as eqx  # pyright: ignore[reportMissingImports]
import gfnx  # pyright: ignore[reportMissingImports]
import jax  # pyright: ignore[reportMissingImports]
import jax.numpy as jnp  # pyright: ignore[reportMissingImports]
import optax  # pyright: ignore[reportMissingImports]


class Given(gfnx.base.BaseRewardModule):  # pyright: ignore[reportUntypedBaseClass]
    """A table of log rewards, in the order of the digits of a state."""

    def __init__(self, log_reward: list[float], base: int, digits: Any) -> None:
        self.table, self.base, self.digits = jnp.array(log_reward), base, digits

    def init(self, rng_key: Any, dummy_state: Any) -> None:
        """Nothing is drawn."""

    def log_reward(self, state: Any, env_params: Any) -> Any:
        """Of every state of a batch."""
        at = self.digits(state)
        return self.table[at @ (self.base ** jnp.arange(at.shape[1] - 1, -1, -1))]

    def reward(self, state: Any, env_params: Any) -> Any:
        """Of every state of a batch."""
        return jnp.exp(self.log_reward(state, env_params))


class Policy(eqx.Module):  # pyright: ignore[reportUntypedBaseClass]
    """Hidden layers that P_F and P_B share, and a head for each."""

    trunk: eqx.nn.MLP
    forward: eqx.nn.Linear
    backward: eqx.nn.Linear

    def __init__(self, inputs: int, env: Any, width: int, depth: int, key: Any) -> None:
        keys, relu = jax.random.split(key, 3), jax.nn.relu
        self.trunk = eqx.nn.MLP(inputs, width, width, depth - 1, activation=relu, final_activation=relu, key=keys[0])
        self.forward = eqx.nn.Linear(width, env.action_space.n, key=keys[1])
        self.backward = eqx.nn.Linear(width, env.backward_action_space.n, key=keys[2])

    def __call__(self, seen: Any) -> dict[str, Any]:
        hidden = self.trunk(seen)
        return {"forward_logits": self.forward(hidden), "backward_logits": self.backward(hidden)}


def environment(asked: dict[str, Any]) -> tuple[Any, Any, int]:
    """The environment, how a network sees its observations (one-hot digits), and how long that is."""
    size, length, table = asked["size"], asked["length"], asked["log_reward"]
    if asked["kind"] == "grid":
        reward = Given(table, size, lambda s: s.state)
        return gfnx.HypergridEnvironment(reward, dim=length, side=size), lambda obs: obs, size * length
    env = gfnx.BitseqEnvironment(Given(table, 2, lambda s: s.tokens), n=length, k=1)

    def seen(obs: Any) -> Any:  # the first token says that a string begins
        return jax.nn.one_hot(obs[..., -length:], 3).reshape(*obs.shape[:-1], -1)

    return env, seen, 3 * length


def main() -> None:
    """Read what is asked for, train, answer."""
    asked = json.loads(sys.stdin.readline())
    env, seen, inputs = environment(asked)
    env_params, key = env.init(jax.random.key(0)), jax.random.key(asked["seed"])
    model = Policy(inputs, env, asked["width"], asked["depth"], key)
    params, static = eqx.partition(model, eqx.is_array)
    params = {"model": params, "log_z": jnp.array(0.0)}
    rates = {"model": asked["rate"], "log_z": asked["rate"] * asked["log_z_rate"]}
    adam = {k: optax.adamw(r, weight_decay=0.01) for k, r in rates.items()}
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.multi_transform(adam, {k: k for k in rates}))

    def policy(_: Any, obs: Any, now: Any) -> tuple[Any, Any]:
        out = jax.vmap(eqx.combine(now["model"], static))(seen(obs))
        return out["forward_logits"], out

    def loss(now: Any, drawn: Any) -> Any:
        info = jax.vmap(jax.vmap(eqx.combine(now["model"], static)))(seen(drawn.obs))
        log_pf, log_pb = gfnx.utils.forward_trajectory_log_probs(env, drawn.replace(info=info), env_params)
        rewards = jnp.where(drawn.pad, 0.0, drawn.log_gfn_reward).sum(1)
        return ((now["log_z"] + log_pf - log_pb - rewards) ** 2).mean()

    def step(state: Any, _: Any) -> tuple[Any, Any]:
        key, now, moments = state
        key, draw = jax.random.split(key)
        drawn, _ = gfnx.utils.forward_rollout(draw, asked["batch"], policy, now, env, env_params)
        value, slope = jax.value_and_grad(loss)(now, drawn)
        updates, moments = optimiser.update(slope, moments, now)
        return (key, optax.apply_updates(now, updates), moments), value

    run = jax.jit(lambda state, n: jax.lax.fori_loop(0, n, lambda _, s: step(s, None)[0], state))
    state = (key, params, optimiser.init(params))
    began = time.process_time()
    jax.block_until_ready(run(run(state, 1), 1))  # twice: arrays that come out have other types than those that went in
    print(json.dumps({"compiled_in": time.process_time() - began}), flush=True)
    for line in sys.stdin:
        if line.strip() == "policy":
            digits = jnp.array(asked["digits"])
            obs = digits if asked["kind"] == "bits" else jax.nn.one_hot(digits, asked["size"]).reshape(len(digits), -1)
            logits, _ = policy(None, obs, state[1])
            print(json.dumps(logits.tolist()), flush=True)
            continue
        began = time.process_time()
        state = jax.block_until_ready(run(state, int(line)))
        print(json.dumps({"seconds": time.process_time() - began}), flush=True)


if __name__ == "__main__":
    main()
