"""Run a fill on several threads: one lazily made pool, shared by everyone who fills.

The kernels hold no GIL, so the threads are Python's; a pool of OpenMP would clash with torch's and jax's. A
fill is cut into chunks that threads take in turn; which thread writes a chunk changes no bit. The calling
thread waits meanwhile, so however many user threads fill at once, no more threads compute than the pool has.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from .. import _core
from .checks import as_index
from .cpus import MOST_THREADS, default_threads

CHUNK = 1 << 20
"""Elements between two looks at Ctrl-C: a fraction of a millisecond to 20 ms, by level and dtype."""

_SERIAL = 1 << 19


class Pool:
    """The shared executor, made on first use and enlarged for whoever asks for more threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._size = 0

    def submit(self, count: int, work: Callable[[], None], workers: list[Future[None]]) -> None:
        """Start `work` on `count` threads, or on as many as the system still gives; append them to `workers`."""
        with self._lock, contextlib.suppress(RuntimeError):  # no more threads, or the interpreter is ending
            if self._executor is None or self._size < count:
                executor = ThreadPoolExecutor(max(count, default_threads()), thread_name_prefix="fastinit")
                if self._executor is not None:
                    self._executor.shutdown(wait=False)
                self._executor, self._size = executor, max(count, default_threads())
            try:
                for _ in range(count):
                    workers.append(self._executor.submit(work))
            except BaseException:
                # Ctrl-C can leave a thread that the executor has started but not written down: nobody would wake
                # it, and the process would never end. Closing this pool wakes all it has; the next fill makes one.
                executor, self._executor = self._executor, None
                executor.shutdown(wait=False)
                raise


_pool = Pool()
if hasattr(os, "register_at_fork"):
    # The child has none of the threads, and maybe a lock that nobody will release.
    os.register_at_fork(after_in_child=lambda: Pool.__init__(_pool))


def as_threads(threads: object) -> int | None:
    """Check `threads=`: None, or an integer from 1 to 1024."""
    if threads is None:
        return None
    number = as_index(threads, "threads")
    if not 1 <= number <= MOST_THREADS:
        raise ValueError(f"threads must be between 1 and {MOST_THREADS}, got {number}")
    return number


def run(job: _core.Job, threads: int | None, pool: Pool | None = None) -> None:
    """Run `job` to its end on `threads` threads of `pool` (None: as many as pay, of the shared pool).

    An exception in the calling thread, Ctrl-C above all, stops the other threads after their current chunk.
    """
    size = job.size
    if size <= _SERIAL:
        job.run(0, size)
        return
    if threads == 1:
        for begin in range(0, size, CHUNK):
            job.run(begin, min(begin + CHUNK, size))
        return
    count = min(default_threads() if threads is None else threads, -(-size // CHUNK))
    if count == 1:
        run(job, 1)
    else:
        _run_at_once(job, size, count, pool or _pool)


def _run_at_once(job: _core.Job, size: int, count: int, pool: Pool) -> None:
    chunks = iter(range(0, size, CHUNK))
    turn, bell = threading.Lock(), threading.Lock()
    stopped, ended = False, 0

    def take_chunks() -> None:
        while not stopped:
            with turn:
                begin = next(chunks, None)
            if begin is None:
                return
            job.run(begin, min(begin + CHUNK, size))

    def work() -> None:
        nonlocal ended
        try:
            take_chunks()
        finally:
            with turn:
                ended += 1
            with contextlib.suppress(RuntimeError):  # rung already
                bell.release()

    def wait() -> None:
        # Not concurrent.futures.wait: Ctrl-C inside its locks, which are Python code, leaves them held. `ended`
        # is the truth here, and a bell that an interrupt has swallowed costs a tenth of a second.
        while ended < len(workers):
            bell.acquire(timeout=0.1)

    workers: list[Future[None]] = []
    try:
        pool.submit(count, work, workers)
        if len(workers) < count:
            take_chunks()  # what the missing threads would have done
        wait()
    except BaseException:
        stopped = True
        wait()
        raise
    finally:
        stopped = True  # a refused thread leaves its work in the queue: it must find none
    for worker in workers:
        worker.result()
