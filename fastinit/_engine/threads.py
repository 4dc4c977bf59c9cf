"""Run a fill on several threads: one lazily made pool, shared by everyone who fills.

The kernels hold no GIL, so the threads are Python's; a pool of OpenMP would clash with torch's and jax's. A
fill is cut into chunks that threads take in turn; which thread writes a chunk changes no bit. The calling
thread waits meanwhile, so however many user threads fill at once, no more threads compute than the pool has.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from .. import _core
from .checks import as_index
from .cpus import MOST_THREADS, default_threads

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

T = TypeVar("T")

CHUNK = 1 << 20
"""Elements between two looks at Ctrl-C: a fraction of a millisecond to 20 ms, by level and dtype."""

_SERIAL = 1 << 19


class Pool:
    """The shared executor, made on first use and enlarged for whoever asks for more threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._busy = False
        self._executor: ThreadPoolExecutor | None = None
        self._size = 0

    def submit(self, count: int, work: Callable[[], None], workers: list[Future[None]]) -> None:
        """Start `work` on `count` threads, or on as many as the system still gives; append them to `workers`."""
        with self._lock:
            if self._busy:  # a signal handler fills inside this very call: its own thread does all of that fill
                return
            self._busy = True
            try:
                with contextlib.suppress(RuntimeError):  # no more threads, or the interpreter is ending
                    self._submit(count, work, workers)
            finally:
                self._busy = False

    def _submit(self, count: int, work: Callable[[], None], workers: list[Future[None]]) -> None:
        executor = self._enlarged(count)
        try:
            for _ in range(count):
                workers.append(executor.submit(work))
        except BaseException:
            # Ctrl-C can leave a thread that the executor has started but not written down: nobody would wake
            # it, and the process would never end. Closing this pool wakes all it has; the next fill makes one.
            self._executor = None
            executor.shutdown(wait=False)
            raise

    def _enlarged(self, count: int) -> ThreadPoolExecutor:
        if self._executor is None or self._size < count:
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  # not after the main thread's end

            executor = ThreadPoolExecutor(max(count, default_threads()), thread_name_prefix="fastinit")
            if self._executor is not None:
                self._executor.shutdown(wait=False)
            self._executor, self._size = executor, max(count, default_threads())
        return self._executor


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
    # Taken and counted without a lock: a signal handler that fills would wait for a lock its own thread holds.
    chunks, ended = deque(range(0, size, CHUNK)), deque[None]()
    bell, stopped = threading.Lock(), False

    def take_chunks() -> None:
        while not stopped:
            try:
                begin = chunks.popleft()
            except IndexError:
                return
            job.run(begin, min(begin + CHUNK, size))

    def work() -> None:
        try:
            take_chunks()
        finally:
            ended.append(None)
            with contextlib.suppress(RuntimeError):  # rung already
                bell.release()

    def wait() -> None:
        # Not concurrent.futures.wait: Ctrl-C inside its locks, which are Python code, leaves them held. `ended`
        # is the truth here, and a bell that an interrupt has swallowed costs a tenth of a second.
        while len(ended) < len(workers):
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


def in_order(work: Callable[..., T], *columns: Sequence[Any], count: int) -> Iterator[T]:
    """Yield what `work` makes of each row of `columns`, in their order, on `count` threads at once.

    The calling thread does it all where the system starts no more threads, or where `count` is 1.
    """
    pool, found = _mapped(work, columns, count) if count > 1 else (None, map(work, *columns))
    try:
        yield from found
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)


def _mapped(
    work: Callable[..., T], columns: tuple[Sequence[Any], ...], count: int
) -> tuple[ThreadPoolExecutor | None, Iterator[T]]:
    pool = None
    try:
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

        pool = ThreadPoolExecutor(count, thread_name_prefix="fastinit")
        return pool, pool.map(work, *columns)
    except RuntimeError:  # as in Pool.submit; an error of `work` itself is raised when its result is asked for
        if pool is not None:
            pool.shutdown(cancel_futures=True)
        return None, map(work, *columns)
