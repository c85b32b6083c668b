"""Work on a cluster, over loopback: the same results with any number of workers, after kills, after all is lost."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dissonance import PDG, Arc, Variable, inconsistency, lir, save
from dissonance.chance import chance
from dissonance.cli.app import run
from dissonance.columns import Column, ColumnarPDG
from dissonance.compiled import engage
from dissonance.errors import ClusterError, DissonanceError
from dissonance.forecasts import coherences
from dissonance.lir.sweep import partition, spread
from dissonance.studies.gflownet.folder import GflownetFolder, Machine
from dissonance.studies.gflownet.settings import Settings
from dissonance.studies.synthetic import Synthetic, SyntheticFolder
from dissonance.studies.work import compute
from dissonance.workers import cluster as workers_cluster
from dissonance.workers import node
from dissonance.workers.cluster import Cluster, LostWorkError, to_cluster

distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")

WORKERS = 3
TRACED = ("local_lower", "local_upper", "global_lower", "tv_theta", "newton_steps")


@pytest.fixture(scope="module")
def cluster() -> Generator[Cluster, None, None]:
    """Workers; the last test of this file retires some."""
    with to_cluster(f"local:{WORKERS}") as found:
        yield found


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few blocks: a task takes a millisecond, whatever it does."""
    monkeypatch.setattr(partition, "FEWEST", 3)
    monkeypatch.setattr(spread, "EVERY", 2)


def graph(n: int = 700) -> ColumnarPDG:
    """A ring with chords, of so many arcs that its sweeps are compiled."""
    rng, ring = np.random.default_rng(0), np.arange(n)
    ends = np.concatenate([np.stack([ring, (ring + 1) % n], 1), np.stack([ring, (ring + 50) % n], 1)])
    made = PDG.from_columns(
        Column([], np.arange(n), rng.dirichlet([2, 2], n)),
        Column(ends[:, 0], ends[:, 1], rng.dirichlet([2, 2], (len(ends), 2))),
    )
    assert isinstance(made, ColumnarPDG) and len(made) >= 2000
    return made


def assert_same(one: Any, other: Any) -> None:
    assert all(torch.equal(a.tables, b.tables) for a, b in zip(one.pdg.columns, other.pdg.columns, strict=True))
    for name in TRACED:
        assert np.array_equal(one.trace.column(name), other.trace.column(name), equal_nan=True), name


# -- the same results --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_workers_that_are_killed_change_nothing(cluster: Cluster, caplog: pytest.LogCaptureFixture):
    pdg, killed = graph(), list[int]()

    def kill(step: int, _: object) -> None:
        if step < 3:
            alive = [x for x in cluster.on_each_worker(os.getpid).values() if isinstance(x, int)]
            killed.append(random.Random(step).choice(alive))
            delay = 0.0 if step == 1 else 0.1  # between two sweeps, and in the midst of one
            threading.Timer(delay, os.kill, (killed[-1], signal.SIGKILL)).start()

    there = lir(pdg, "sweep", sweeps=5, cluster=cluster, callbacks=[kill])
    assert_same(lir(pdg, "sweep", sweeps=5), there)
    assert len(killed) == 2 and "is gone: what it had is done again by others" in caplog.text


def test_a_study_is_the_same(cluster: Cluster, tmp_path: Path):
    engage()
    study = Synthetic(replicates=2, structures=2, steps=2, strategies=("uniform", "hub"))
    folders = [SyntheticFolder(tmp_path / name, study) for name in ("here", "there")]
    seen: list[float] = []
    compute(folders[0])
    compute(folders[1], workers=cluster, progress=lambda done, total: seen.append(done / total))
    here, there = ([o.__dict__ | {"seconds": 0} for o in f.outcomes()] for f in folders)
    assert here == there and seen == sorted(seen) and seen[-1] == 1


def test_forecasts_are_the_same(cluster: Cluster):
    engage()
    rng = np.random.default_rng(0)
    books = [[f"P(A) = {a}", f"P(B) = {b}", f"P(A and B) = {c}"] for a, b, c in rng.uniform(0.1, 0.9, (20, 3))]
    books += [["P(Rain) = 0.4", "P(Rain | Wind) = 0.9", "P(Wind) = 0.7", "not Rain or Wind"]]
    for score in ("log", "brier"):
        here, there = coherences(books, score=score), coherences(books, score=score, cluster=cluster.client)
        assert [(x.lower, x.upper, x.rows) for x in here] == [(x.lower, x.upper, x.rows) for x in there]
        assert here[-1].worlds == there[-1].worlds
    with pytest.raises(DissonanceError, match="can never hold"):
        coherences(["P(A | B and not B) = 0.3"], cluster=cluster)


def test_replicates_are_the_same(cluster: Cluster):
    engage()
    a, b = Variable("A", ["no", "yes"]), Variable("B", [0, 1, 2])
    tables = {"p": [30.0, 70.0], "q": [45.0, 55.0]}
    arcs = [
        Arc.from_table(n, dict(zip(("no", "yes"), x, strict=True)), of=(a,), counts=True) for n, x in tables.items()
    ]
    pairs = {(i, j): 5.0 + 3 * k for k, (i, j) in enumerate((i, j) for i in ("no", "yes") for j in (0, 1, 2))}
    result = inconsistency(PDG(*arcs, Arc.from_table("r", pairs, of=(a, b), counts=True)))
    seen: list[int] = []
    here = chance(result, replicates=60)
    there = chance(result, replicates=60, cluster=cluster, progress=lambda done, total: seen.append(done))
    assert here == there and seen[-1] == 60


@pytest.mark.slow
def test_the_study_of_gflownets_is_the_same(cluster: Cluster, tmp_path: Path):
    pytest.importorskip("optuna")
    settings = replace(
        Settings.tiny(), height=4, losses=("TB", "ModTB"), rewards=("cosine",), clamps=("none",), trials=4,
        seeds=(1, 2, 3), search_iterations=60, iterations=80, every=40, batch=16,
    )  # fmt: skip
    found: list[tuple[list[Any], list[Any], list[Any]]] = []
    for name, machine in (("here", Machine(together=2)), ("there", Machine(together=2, workers=cluster))):
        folder = GflownetFolder(tmp_path / name, settings)
        folder.search(machine)
        folder.confirm(machine)
        found.append((folder.trials(), [replace(o, seconds=0.0) for o in folder.outcomes()], folder.traces()))
    assert found[0][:2] == found[1][:2] and len(found[0][1]) == 6
    assert sorted(map(repr, found[0][2])) == sorted(map(repr, found[1][2]))


def _fails(item: int, watch: object) -> int:
    if item == 3:
        raise DissonanceError("three is too many.")
    return -item


def test_pieces_of_work_come_back_each_with_its_number_and_errors_are_theirs(cluster: Cluster):
    found: dict[int, int] = {}
    cluster.each(_fails, (i for i in range(10, 60)), found.__setitem__)
    assert found == {i: -10 - i for i in range(50)}
    with pytest.raises(DissonanceError, match="three is too many"):
        cluster.each(_fails, range(5), lambda i, x: None)


def _dies(item: int, watch: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_work_that_kills_every_worker_is_given_up_in_one_line(cluster: Cluster):
    with pytest.raises(LostWorkError, match=r"a task \(dies\) was lost with several workers") as error:
        cluster.each(_dies, [1], lambda i, x: None)
    assert "\n" not in str(error.value)
    cluster.client.wait_for_workers(WORKERS, timeout=60)


# -- the command line --------------------------------------------------------------------------------------------------


def resolve(model: Path, out: Path, *words: str) -> int:
    return run(["resolve", str(model), "--out", str(out), "--refocus", "sweep", "--sweeps", "6", *words])


@pytest.mark.slow
def test_a_lost_scheduler_is_one_line_and_the_run_goes_on_elsewhere(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(workers_cluster, "PATIENCE", 3.0)
    model, here, there = (tmp_path / f"{name}.npz" for name in ("model", "here", "there"))
    save(model, graph())
    assert resolve(model, here) == 0
    with Alone(tmp_path) as alone:
        head = tmp_path / "there.npz.checkpoint" / "run"
        threading.Thread(target=alone.lose, args=(head,), daemon=True).start()
        capsys.readouterr()
        assert resolve(model, there, "--cluster", alone.address) == 1
    said = [x for x in capsys.readouterr().err.splitlines() if "note: " not in x and "waiting for one" not in x]
    assert said == [f"dissonance: the scheduler at {alone.address} is lost. --resume goes on from the last checkpoint."]
    assert head.exists() and not there.exists()
    assert resolve(model, there, "--cluster", cluster.address, "--resume") == 0
    assert there.read_bytes() == here.read_bytes() and not head.parent.exists()
    said = capsys.readouterr().err
    assert f"cluster {cluster.address}, {WORKERS} workers; dashboard: " in said


class Alone:
    """A scheduler and a worker, as processes of their own; `tls`: CA, CERT and KEY of both."""

    def __init__(self, folder: Path, tls: Sequence[str] = ()) -> None:
        self.file = folder / "scheduler.json"
        names = ("--tls-ca-file", "--tls-cert", "--tls-key")
        self.tls = [word for pair in zip(names, tls, strict=False) for word in pair]
        if tls:
            self.tls += ["--protocol", "tls"]
        self.started = [self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show")]
        while not self.file.exists():
            time.sleep(0.05)
        self.address = ""
        while not self.address:
            try:
                self.address = json.loads(self.file.read_text())["address"]
            except ValueError:
                time.sleep(0.05)
        self.started.append(self._start("worker", "--host", "127.0.0.1", "--nthreads", "1", "--no-dashboard"))

    def _start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        command = [
            sys.executable,
            "-m",
            "distributed.cli.dask_" + name,
            "--scheduler-file",
            str(self.file),
            *words,
            *self.tls,
        ]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.file.parent)

    def lose(self, head: Path) -> None:
        """Kill the scheduler once a checkpoint is there."""
        while not head.exists():
            time.sleep(0.01)
        self.started[0].kill()

    def __enter__(self) -> Alone:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.started:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--cluster", "tcp://127.0.0.1:9"), "no scheduler can be reached at tcp://127.0.0.1:9"),
        (("--cluster", "127.0.0.1:9"), "no scheduler can be reached at tcp://127.0.0.1:9"),
        (("--cluster", ""), "the cluster '' is no address"),
        (("--cluster", "somewhere"), "the cluster 'somewhere' is no address"),
        (("--cluster", "http://127.0.0.1:9"), "is no address"),
        (("--cluster", "local:0"), "expected local, or local:N"),
        (("--cluster", "local:many"), "expected local, or local:N"),
        (("--cluster", "tls://127.0.0.1:9"), "tls://127.0.0.1:9 needs the files of TLS: CA,CERT,KEY"),
        (("--cluster-tls", "a,b,c"), "--cluster-tls is for --cluster"),
        (("--cluster", "tls://127.0.0.1:9", "--cluster-tls", "a,b"), "TLS needs three files"),
        (("--cluster", "tls://127.0.0.1:9", "--cluster-tls", "a,b,c"), "a: there is no such file"),
    ],
)
def test_what_is_no_cluster_is_refused_in_one_line(
    words: tuple[str, ...], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
):
    monkeypatch.setattr(workers_cluster, "PATIENCE", 0.3)
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", "tcp://127.0.0.1:8")
    save(tmp_path / "model.npz", graph())
    assert resolve(tmp_path / "model.npz", tmp_path / "out.npz", *words) == 2
    said = capsys.readouterr().err
    assert complaint in said and said.count("\n") == 1 and not (tmp_path / "out.npz").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("resolve", "m.json", "--out", "o.json"), "--cluster is for --refocus sweep"),
        (("score", "m.json"), "--cluster is for the replicates of --chance"),
        (("study", "synthetic", "--jobs", "2"), "--jobs is for processes of this machine"),
    ],
)
def test_where_a_cluster_has_nothing_to_do_it_is_refused(
    words: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
):
    assert run([*words, "--cluster", "tcp://127.0.0.1:9"]) == 2
    said = capsys.readouterr().err
    assert complaint in said and said.count("\n") == 1


def test_workers_with_other_versions_are_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    mine = tuple((name, "9.9" if name == "numpy" else x) for name, x in node.versions())
    monkeypatch.setattr(node, "versions", lambda: mine)
    with pytest.raises(DissonanceError, match=r"^tcp://.*: a worker has numpy .*, this command 9.9") as error:
        Cluster(cluster.client)
    assert "\n" not in str(error.value)


def test_what_python_is_given_must_be_a_cluster_and_for_sweeps(cluster: Cluster):
    with pytest.raises(DissonanceError, match=r"a distributed\.Client; found 7"):
        lir(graph(), "sweep", cluster=7)
    with pytest.raises(DissonanceError, match='are for refocus "sweep"'):
        lir(graph(), "hub", cluster=cluster)
    with pytest.raises(DissonanceError, match="no process has the whole"):
        from dissonance.runs import Record

        lir(graph(), "sweep", cluster=cluster, trace=Record(globally=True))


def test_without_dask_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(DissonanceError, match=r"pip install 'dissonance\[cluster\]'"):
        lir(graph(), "sweep", cluster="local:2")


def test_a_closed_client_is_a_lost_scheduler(cluster: Cluster):
    with distributed.Client(cluster.address, set_as_default=False) as client:
        other = Cluster(client)
    with pytest.raises(ClusterError, match=r"is lost\. Once more\."), to_cluster(client, then="Once more."):
        pass
    with pytest.raises(ClusterError, match="is lost"):
        other.submit("x", os.getpid)


def certificate(folder: Path, name: str) -> list[str]:
    """CA, CERT and KEY: a certificate that vouches for itself."""
    cert, key = (str(folder / f"{name}-{what}.pem") for what in ("cert", "key"))
    words = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=here", "-keyout", key, "-out", cert]
    try:
        subprocess.run(["openssl", "req", *words], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no openssl to make a certificate with")
    return [cert, cert, key]


@pytest.mark.slow
def test_a_sweep_on_a_scheduler_with_tls_is_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(workers_cluster, "PATIENCE", 5.0)
    model, here, there, not_there = (tmp_path / f"{name}.npz" for name in ("model", "here", "there", "not_there"))
    save(model, graph())
    assert resolve(model, here) == 0
    known, stranger = certificate(tmp_path, "known"), certificate(tmp_path, "stranger")
    with Alone(tmp_path, tls=known) as alone:
        assert alone.address.startswith("tls://127.0.0.1:")
        assert resolve(model, there, "--cluster", alone.address, "--cluster-tls", ",".join(known)) == 0
        assert f"cluster {alone.address}, " in capsys.readouterr().err
        refused = (
            ("--cluster", alone.address, "--cluster-tls", ",".join(stranger)),
            ("--cluster", alone.address.replace("tls://", "tcp://")),
        )
        for words in refused:
            assert resolve(model, not_there, *words) == 2
            said = [line for line in capsys.readouterr().err.splitlines() if line]
            assert len(said) == 1 and "no scheduler can be reached at " in said[0]
    assert there.read_bytes() == here.read_bytes() and not not_there.exists()


def test_any_number_of_workers_gives_the_same_bits(cluster: Cluster):
    pdg = graph()
    here = lir(pdg, "sweep", neighbourhood="closed", sweeps=3)
    for left in (WORKERS, 2, 1):
        cluster.client.retire_workers(sorted(cluster.client.nthreads())[left:])
        assert len(cluster.client.nthreads()) == left
        assert_same(here, lir(pdg, "sweep", neighbourhood="closed", sweeps=3, cluster=cluster.client))
