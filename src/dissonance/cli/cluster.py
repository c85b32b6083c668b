"""The options of commands whose work can be done on a cluster."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from dissonance.errors import DissonanceError

if TYPE_CHECKING:
    from dissonance.workers.cluster import Cluster

ClusterAddress = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="Do the work on the workers of a dask scheduler, tcp://HOST:PORT or tls://HOST:PORT; or of one that is "
        "started here for the time being: local, local:N.",
        metavar="ADDRESS",
        show_default=False,
    ),
]
ClusterTls = Annotated[
    str | None,
    typer.Option(
        "--cluster-tls",
        help="The files of TLS for a tls:// address, between commas.",
        metavar="CA,CERT,KEY",
        show_default=False,
    ),
]

AGAIN = "Nothing was kept: give the command again."
SAME = "The same command goes on from here."
"""What can be done when a cluster is lost."""


@contextmanager
def workers(address: str | None, tls: str | None, then: str) -> Generator[Cluster | None, None, None]:
    """The cluster that is asked for, or None; `then`: what to do if it is lost."""
    if address is None:
        if tls is not None:
            raise DissonanceError("--cluster-tls is for --cluster.")
        yield None
        return
    from dissonance.workers.cluster import Tls, to_cluster

    with to_cluster(address, None if tls is None else Tls.named(tls), then) as cluster:
        yield cluster
