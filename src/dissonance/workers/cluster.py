"""Work on a cluster: dask.distributed runs pure tasks, and again elsewhere what was lost with a worker.

Only an address that is asked for is used: what the environment or a configuration of dask says is not.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import time
import uuid
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Any

from dissonance.errors import ClusterError, DissonanceError
from dissonance.solvers.exact import precompile
from dissonance.workers import node
from dissonance.workers.base import Watch, Workers
from dissonance.workers.processes import interrupts_ignored

log = logging.getLogger("dissonance")

TICK = 1.0
"""Seconds between two looks at which workers are there."""
PATIENCE = 10.0
"""Seconds until an address that does not answer is given up."""
RESTARTED = 60
"""Seconds in which a local worker that was killed is to be there again, before another is started in its place."""
AHEAD = 4
"""Pieces of work for each thread of the workers that are handed out at once."""


class LostWorkError(ClusterError):
    """The scheduler has given up a task: several workers were lost with it, one after another."""


@dataclass(frozen=True)
class Tls:
    """The files of TLS: of the authority, and of the certificate and the key of this client."""

    ca: str
    cert: str
    key: str

    @classmethod
    def named(cls, names: str) -> Tls:
        """From three names between commas."""
        found = [x.strip() for x in names.split(",")]
        if len(found) != 3 or not all(found):
            raise DissonanceError(f"TLS needs three files, CA,CERT,KEY, found {names!r}.")
        for name in found:
            if not os.path.isfile(name):  # noqa: PTH113
                raise DissonanceError(f"{name}: there is no such file.")
        return cls(*found)


class Cluster(Workers):
    """The workers of a scheduler, through a client of dask.distributed."""

    same_files = False

    def __init__(self, client: Any, restore: Callable[[], None] = lambda: None) -> None:
        """`restore` starts workers again that have not come back by themselves; it is called now and then."""
        self.client, self.restore, self.versions = client, restore, node.versions()
        self.address = str(client.scheduler.address) if client.scheduler else "the client's address"
        self._there: set[str] | None = None
        self._looked = 0.0
        self._prepare()

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def submit(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """A future of a pure function of plain values and other futures."""
        with self._reached():
            key = f"{name}-{uuid.uuid4().hex}"
            return self.client.submit(node.call, self.versions, function, *args, key=key, pure=False)

    def gather(self, futures: Sequence[Any]) -> list[Any]:
        """Their results, once all are there."""
        left = set(futures)
        while left:
            left -= self._first(left)
        with self._reached():
            return self.client.gather(list(futures))

    def each(
        self,
        function: Callable[[Any, Watch], Any],
        items: Iterable[Any],
        finished: Callable[[int, Any], None],
        watch: Callable[[int, float], None] = lambda i, part: None,
    ) -> None:
        """Do `function(item, watch)` for all items; what is done of an item is not known before its end."""
        feed, running = enumerate(items), dict[Any, int]()
        with self._reached():
            most = max(16, AHEAD * sum(self.client.nthreads().values()))
        try:
            while True:
                for i, item in feed:
                    with self._reached():
                        key = f"{function.__name__.strip('_')}-{uuid.uuid4().hex}"
                        future = self.client.submit(node.do, self.versions, function, item, key=key, pure=False)
                    running[future] = i
                    if len(running) >= most:
                        break
                if not running:
                    return
                for future in self._first(set(running)):
                    with self._reached():
                        result = future.result()
                    finished(running.pop(future), result)
        except BaseException:
            self.forget(running)
            raise

    def forget(self, futures: Iterable[Any]) -> None:
        """Tasks that nobody waits for any more."""
        with contextlib.suppress(Exception):
            self.client.cancel(list(futures), force=True)

    def on_each_worker(self, function: Callable[..., Any], *args: Any) -> dict[str, Any]:
        """What a function gives on each worker that is there, or the error it gives."""
        with self._reached():
            return self.client.run(function, *args, on_error="return")

    # -- what may go wrong ---------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Refuse workers that compute something else, and compile once for each machine."""
        cpus: set[str] = set()
        for worker, found in self.on_each_worker(node.ready, self.versions).items():
            if isinstance(found, DissonanceError):
                raise DissonanceError(f"{worker}: {found}")
            if isinstance(found, BaseException):
                raise DissonanceError(f"{worker}: dissonance cannot be used there: {type(found).__name__}: {found}")
            cpus.add(found)
        if len(cpus) > 1:
            log.warning("the workers have different CPUs (%s): results differ by rounding.", ", ".join(sorted(cpus)))
        made = self.on_each_worker(node.compiled_here)
        if not all(x is True for x in made.values()):
            log.warning("compiling the solver, once for each machine of the cluster: about half a minute.")
            hosts = {_host(worker): worker for worker, there in made.items() if there is not True}
            with self._reached():
                self.client.run(node.compile_here, workers=list(hosts.values()))
        self._look()

    def _first(self, futures: set[Any]) -> set[Any]:
        """Those that are done, as soon as any is."""
        from distributed import wait

        while True:
            self._look()
            with self._reached(), contextlib.suppress(TimeoutError), self.client.as_current():
                done: Any = wait(list(futures), timeout=TICK, return_when="FIRST_COMPLETED")
                return set(done.done)

    def _look(self) -> None:
        """Say which workers are lost, and if none is left."""
        if time.monotonic() < self._looked + TICK:
            return
        self._looked = time.monotonic()
        with self._reached():
            there = set(self.client.nthreads())
        for worker in sorted((self._there or set()) - there):
            log.warning("the worker %s is gone: what it had is done again by others.", worker)
        if not there and self._there != there:
            log.warning("there is no worker at %s: waiting for one.", self.address)
        self._there = there
        self.restore()

    @contextlib.contextmanager
    def _reached(self) -> Generator[None, None, None]:
        """Errors of the cluster itself, in one line; those of tasks are as they were."""
        from concurrent.futures import CancelledError

        from distributed.comm.core import CommClosedError
        from distributed.scheduler import KilledWorker

        lost = ClusterError(f"the scheduler at {self.address} is lost.")
        if self.client.status in ("closed", "closing"):
            raise lost
        try:
            yield
        except KilledWorker as error:
            name = str(error.args[0] if error.args else error).partition("-")[0]
            raise LostWorkError(
                f"a task ({name}) was lost with several workers, one after another: were they killed, or out of memory?"
            ) from None
        except TimeoutError:
            raise
        except (CancelledError, CommClosedError, OSError):
            raise lost from None


# -- connecting --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def to_cluster(where: Any, tls: Tls | None = None, then: str = "") -> Generator[Cluster, None, None]:
    """The workers at an address (tcp://host:port, tls://host:port), of a client of dask.distributed, or started here
    for the time being: "local", "local:4".

    `then`: what can be done if they are lost, a sentence for the message.
    """
    if isinstance(where, Cluster):
        yield where
        return
    try:
        if isinstance(where, str):
            local = where.partition(":")[0] == "local"
            if local and tls is not None:
                raise DissonanceError(f"{where}: TLS is for an address that begins with tls://.")
            with _local(where) if local else _remote(where, tls) as client:
                made = Cluster(client, (lambda: _restore(client.cluster)) if local else lambda: None)
                _announce(made, not local or find_spec("bokeh") is not None)
                yield made
        else:
            yield Cluster(_client(where))
    except ClusterError as error:
        raise type(error)(f"{error} {then}".strip()) from None


def _announce(made: Cluster, watched: bool) -> None:
    """Say where the workers are, and where to watch them, if they can be."""
    count = len(made.client.nthreads())
    dashboard = made.client.dashboard_link if watched else "none (pip install bokeh)"
    log.info("cluster %s, %d worker%s; dashboard: %s", made.address, count, "s" * (count != 1), dashboard)
    from dask.config import get

    named = get("scheduler-address", None)
    if named and named != made.address:
        log.info("DASK_SCHEDULER_ADDRESS, or dask's configuration, names %s, which is not used.", named)


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise DissonanceError("a cluster needs dask.distributed: pip install 'dissonance[cluster]'.") from None
    return distributed


def _client(given: Any) -> Any:
    if not isinstance(given, _distributed().Client):
        raise DissonanceError(
            f"a cluster is an address, as tcp://host:8786, local, local:4, or a distributed.Client; found {given!r}."
        )
    if given.asynchronous:
        raise DissonanceError("the client of the cluster is asynchronous; give one that is not.")
    return given


@contextlib.contextmanager
def _local(where: str) -> Generator[Any, None, None]:
    """Workers that are processes of this machine, and end with this."""
    distributed = _distributed()
    asked = where.partition(":")[2]
    if where != "local" and not (asked.isdecimal() and 0 < int(asked) <= 1024):
        raise DissonanceError(f"{where!r}: expected local, or local:N with the number of workers.")
    count = int(asked or (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1))
    precompile()  # once, not in each of them
    with TemporaryDirectory(prefix="dissonance-") as folder, contextlib.ExitStack() as stack:
        from dask.config import set as configured

        stack.enter_context(configured({"distributed.deploy.lost-worker-timeout": f"{RESTARTED}s"}))
        with interrupts_ignored():  # an interrupt is this process's business
            cluster = distributed.LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                protocol="tcp://",
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.CRITICAL,
                local_directory=folder,
            )
        stack.enter_context(cluster)
        client = stack.enter_context(distributed.Client(cluster, set_as_default=False))
        try:
            yield client
        finally:
            with contextlib.suppress(Exception):
                client.run(node.leave_quickly)


def _restore(cluster: Any) -> None:
    """Start workers again that were killed in a moment in which nothing watched over them."""
    cluster.scale(len(cluster.worker_spec))


@contextlib.contextmanager
def _remote(where: str, tls: Tls | None) -> Generator[Any, None, None]:
    """Workers of a scheduler that is there."""
    distributed = _distributed()
    address = where if "://" in where else f"tcp://{where}"
    protocol, _, place = address.partition("://")
    if protocol not in ("tcp", "tls") or not re.fullmatch(r"[^\s/:]+:\d+|\[[^\s/]+\]:\d+", place):
        raise DissonanceError(
            f"the cluster {where!r} is no address: expected tcp://host:port, tls://host:port, local or local:N."
        )
    if (tls is None) == (protocol == "tls"):
        raise DissonanceError(
            f"{address} needs the files of TLS: CA,CERT,KEY."
            if tls is None
            else f"{address}: TLS is for an address that begins with tls://."
        )
    security = None
    if tls is not None:
        security = distributed.Security(
            require_encryption=True, tls_ca_file=tls.ca, tls_client_cert=tls.cert, tls_client_key=tls.key
        )
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what happens to the cluster is said by us
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # versions are compared by us
            client = distributed.Client(address, security=security, timeout=PATIENCE, set_as_default=False)
    except (OSError, TimeoutError, ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DissonanceError(f"no scheduler can be reached at {address}: {reason}") from None
    with client:
        yield client


def _host(worker: str) -> str:
    return worker.partition("://")[2].rpartition(":")[0]
