"""Which cluster a user means: a client, an address, a scheduler file, or threads and processes of this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TypeAlias

from .._engine.cpus import default_threads

try:
    from distributed import Client, KilledWorker, LocalCluster, as_completed, default_client
except ImportError as _error:
    raise ImportError("writing by a cluster needs distributed: pip install 'fastinit-weights[dask]'") from _error

__all__ = ["Client", "ClientLike", "KilledWorker", "as_completed", "connected"]

ClientLike: TypeAlias = Client | str | None


@contextlib.contextmanager
def connected(client: ClientLike) -> Iterator[Client]:
    """Give a client of the cluster that is meant, and close what was made for it.

    Raises
    ------
    OSError
        If no scheduler answers at the address.
    TypeError
        If it is neither a client nor text.
    """
    if client is None:
        client = _in_use() or "threads"
    if isinstance(client, Client):
        yield client
    elif client in ("threads", "processes"):
        with _of_this_machine(client == "processes") as cluster, Client(cluster, set_as_default=False) as found:
            yield found
    elif isinstance(client, str):
        with _at(client) as found:
            yield found
    else:
        raise TypeError(
            "client must be a distributed.Client, an address such as 'tcp://host:8786', a scheduler file, "
            f"'threads' or 'processes', got {type(client).__name__}"
        )


def _in_use() -> Client | None:
    try:
        return default_client()
    except ValueError:
        return None


def _of_this_machine(processes: bool) -> LocalCluster:
    count = default_threads()
    workers, threads = (count, 1) if processes else (1, count)
    return LocalCluster(None, workers, threads, processes, dashboard_address=":0")


def _at(address: str) -> Client:
    where = {"scheduler_file": address} if address.endswith(".json") else {"address": address}
    try:
        return Client(**where, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"no scheduler of dask answers at {address} ({error}); `dask scheduler` starts one and prints its "
            "address, and 'threads' or 'processes' need none"
        ) from error
