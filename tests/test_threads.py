"""Threads change no bit, share one pool, stop at Ctrl-C, and survive a fork."""

import contextlib
import mmap
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import fastinit
from fastinit import _core
from fastinit._engine import cpus as counted
from fastinit._engine import threads
from fastinit._engine.fill import STORES_VARIABLE

SHAPE = (1024, 4099)  # several chunks, and no multiple of one


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_one_to_64_threads_give_the_same_bits(dtype, order):
    """A chunk filled twice, left out, or begun at another draw."""
    alone = fastinit.xavier_uniform(SHAPE, 17, dtype=dtype, threads=1)
    for count in (2, 3, 7, 64):
        out = np.zeros(SHAPE, dtype, order=order)
        fastinit.xavier_uniform(SHAPE, 17, out=out, threads=count)
        assert np.array_equal(out, alone), f"{count} threads, {order} order"


HERE = _core.stream_bytes(_core.last_level_cache())


@pytest.mark.parametrize(("cache", "switch"), [(0, 4), (1, 4), (8, 4), (9, 4.5), (32, 16), (300, 16)])  # MiB
def test_the_switch_to_streaming_is_half_of_the_last_cache_from_4_to_16_mib(cache, switch):
    """A cache of 300 MiB that dozens of cores share keeps 16 for one: stores into it took twice the time."""
    assert _core.stream_bytes(cache << 20) == switch * (1 << 20)


@pytest.mark.skipif(not Path("/sys/devices/system/cpu/cpu0/cache/index2").exists(), reason="no word of caches")
def test_the_last_cache_is_the_one_that_a_core_sees():
    """glibc's sysconf adds up those of all core complexes on AMD: 384 MiB instead of 32."""
    caches = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")
    last = max(caches, key=lambda cache: int((cache / "level").read_text()))
    assert f"{_core.last_level_cache() // 1024}K" == (last / "size").read_text().strip()


def streams(out, stores=_core.STORES_AUTO):
    spec = _core.Spec(_core.BASES["uniform"], _core.DTYPES["float64"], (0.0, 1.0))
    return _core.Job(spec, out, False, 17, 0, (1,), stores).streams


def test_resident_memory_is_streamed_from_the_switch_on():
    """Half a cache too early, who reads the weights next fetches them from memory."""
    memory = np.ones(HERE // 8)
    assert streams(memory)
    assert not streams(memory[1:])
    assert streams(memory[:1], _core.STORES_STREAMING)
    assert not streams(memory, _core.STORES_ORDINARY)
    if sys.platform == "linux":  # which alone is asked
        fresh = np.frombuffer(mmap.mmap(-1, HERE))
        assert not streams(fresh), "no page backs it yet"


@pytest.mark.parametrize("nbytes", [HERE - 8, HERE])
def test_no_bit_depends_on_the_side_of_the_switch(nbytes, monkeypatch):
    out = np.ones(nbytes // 8)
    fastinit.random(None, 17, out=out, threads=1)
    assert streams(out) == (nbytes == HERE)
    monkeypatch.setenv(STORES_VARIABLE, "ordinary" if nbytes == HERE else "streaming")
    other = np.ones(nbytes // 8)
    fastinit.random(None, 17, out=other, threads=1)
    assert np.array_equal(out, other)


@pytest.mark.parametrize("stores", ["auto", "ordinary", "streaming"])
@pytest.mark.parametrize("offset", [0, 1, 5])
def test_the_choice_of_stores_changes_no_bit(stores, offset, monkeypatch):
    """A streaming head or tail at an unaligned address that writes the wrong weights, or past its end."""
    monkeypatch.setenv(STORES_VARIABLE, stores)
    size = HERE // 4 + 1003
    memory = np.full(size + 3, -7.0, np.float32)
    fastinit.random(None, 17, out=memory[offset:-3])
    assert np.array_equal(memory[offset:-3], fastinit.random(size - offset, 17, dtype="float32"))
    assert (memory[:offset] == -7).all()
    assert (memory[-3:] == -7).all()


def test_an_unknown_choice_of_stores_is_refused(monkeypatch):
    monkeypatch.setenv(STORES_VARIABLE, "fast")
    with pytest.raises(ValueError, match="auto, ordinary, streaming"):
        fastinit.random(1 << 20, 17)


@pytest.mark.parametrize("wrong", [0, -1, 1025, 2**70])
def test_a_number_of_threads_out_of_range_is_refused(wrong):
    rng = fastinit.SplitMix64(17)
    with pytest.raises(ValueError, match="between 1 and 1024"):
        fastinit.random(8, rng, threads=wrong)
    assert rng.state == 17


@pytest.mark.parametrize("wrong", [1.0, True, "2"])
def test_a_number_of_threads_that_is_no_integer_is_refused(wrong):
    with pytest.raises(TypeError, match="threads must be an integer"):
        fastinit.random(8, 17, threads=wrong)


@pytest.mark.parametrize("wrong", ["0", "-1", "two", "1.5", "99999"])
def test_a_wrong_environment_variable_is_named(wrong, monkeypatch):
    monkeypatch.setenv(counted.VARIABLE, wrong)
    with pytest.raises(ValueError, match=counted.VARIABLE):
        fastinit.random(1 << 21, 17)


def test_the_environment_variable_is_the_default(monkeypatch):
    monkeypatch.setenv(counted.VARIABLE, "3")
    assert threads.default_threads() == 3


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity masks")
def test_the_default_respects_the_affinity_mask(monkeypatch):
    """A process confined to one CPU by its scheduler that starts a thread for each of the machine's."""
    monkeypatch.delenv(counted.VARIABLE, raising=False)
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert threads.default_threads() == 1
    finally:
        os.sched_setaffinity(0, before)


@pytest.fixture
def cgroup(monkeypatch, tmp_path):
    """A stand-in for the cgroup file system, in which this process is in /slice/job."""
    (tmp_path / "slice/job").mkdir(parents=True)
    (tmp_path / "cpu").mkdir()
    (tmp_path / "process").write_text("0::/slice/job\n")
    monkeypatch.setattr(counted, "CGROUP", tmp_path)
    monkeypatch.setattr(counted, "CGROUP_OF_PROCESS", tmp_path / "process")
    counted.cgroup_cpus.cache_clear()
    yield tmp_path
    counted.cgroup_cpus.cache_clear()


@pytest.mark.parametrize(("text", "cpus"), [("150000 100000\n", 2), ("50000 100000\n", 1), ("max 100000\n", 1024)])
@pytest.mark.parametrize("folder", ["", "slice", "slice/job"])
def test_the_default_respects_the_cgroup_quota(folder, text, cpus, cgroup):
    """A container, or a job below one, with half a CPU that starts a thread for each of the machine's."""
    (cgroup / "cgroup.controllers").write_text("cpu")
    (cgroup / folder / "cpu.max").write_text(text)
    assert counted.cgroup_cpus() == cpus


@pytest.mark.parametrize(("quota", "cpus"), [("150000", 2), ("50000", 1), ("-1", 1024)])
def test_the_default_respects_the_first_kind_of_cgroup_too(quota, cpus, cgroup):
    (cgroup / "cpu/cpu.cfs_quota_us").write_text(quota)
    (cgroup / "cpu/cpu.cfs_period_us").write_text("100000")
    assert counted.cgroup_cpus() == cpus


def test_many_users_share_one_pool():
    """Eight users of two threads each must not become sixteen computing threads."""
    computing, most, lock = 0, 0, threading.Lock()

    class Job:
        size = 8 * threads.CHUNK

        def run(self, begin, end):
            nonlocal computing, most
            with lock:
                computing += 1
                most = max(most, computing)
            time.sleep(0.002)
            with lock:
                computing -= 1

    pool = threads.Pool()
    with ThreadPoolExecutor(8) as users:
        list(users.map(lambda _: threads.run(Job(), 2, pool), range(8)))
    assert 1 <= most <= max(2, threads.default_threads())


def test_users_at_once_get_their_own_weights():
    """A chunk of one user's tensor written with another's stream."""
    with ThreadPoolExecutor(6) as users:
        found = list(users.map(lambda seed: fastinit.random((700, 3000), seed, threads=2), range(6)))
    for seed, weights in enumerate(found):
        assert np.array_equal(weights, fastinit.random((700, 3000), seed, threads=1))


def test_an_error_in_a_worker_reaches_the_caller():
    """A fill that failed in a thread and looks as if it had been done."""

    class Broken:
        size = 4 * threads.CHUNK

        def run(self, begin, end):
            raise MemoryError("no page")

    with pytest.raises(MemoryError, match="no page"):
        threads.run(Broken(), 2)


def test_a_job_refuses_ranges_outside_it():
    spec = _core.Spec(_core.BASES["constant"], _core.DTYPES["float64"], (1.0,))
    job = _core.Job(spec, np.zeros(4), False, 0, 0, (1,), _core.STORES_AUTO)
    for begin, end in ((-1, 2), (0, 5), (3, 2)):
        with pytest.raises(ValueError, match="leaves the 4 elements"):
            job.run(begin, end)


CTRL_C = """
    import sys, time, numpy as np, fastinit
    rng = fastinit.SplitMix64(17)
    out = np.ones((4096, 65536), np.float32)
    print("ready", flush=True)
    try:
        while True:
            fastinit.xavier_uniform(None, rng, out=out, threads=int(sys.argv[1]))
            rng.state = 17
    except KeyboardInterrupt:
        print(rng.state, flush=True)
"""


@pytest.mark.parametrize("count", ["1", "2"])
def test_ctrl_c_stops_a_large_fill_and_leaves_the_generator(count):
    """A fill of seconds that cannot be stopped, or that moves the generator although it was."""
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CTRL_C), count], stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.1)
        child.send_signal(signal.SIGINT)
        output, _ = child.communicate(timeout=30)
    finally:
        child.kill()
    assert output == "17\n"


FORK = """
    import os, numpy as np, fastinit
    expected = fastinit.random((600, 4000), 17, threads=2)
    child = os.fork()
    if child == 0:
        good = np.array_equal(fastinit.random((600, 4000), 17, threads=2), expected)
        os._exit(0 if good else 1)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_makes_its_own_pool():
    """A child that waits for ever for threads only its parent has."""
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(FORK)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == "0\n"


def test_a_system_without_threads_is_filled_by_the_caller(monkeypatch):
    """A job left in the queue by a thread that could not start, which overwrites `out` during a later fill."""
    pool = threads.Pool()
    monkeypatch.setattr(threads, "_pool", pool)
    start, started = threading.Thread.start, []

    def refuse(self):
        started.append(self)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    size = 3 * threads.CHUNK
    out = np.zeros(size)
    fastinit.random(None, 17, out=out, threads=2)
    assert started
    monkeypatch.setattr(threading.Thread, "start", start)
    assert np.array_equal(out, fastinit.random(size, 17, threads=1))
    out[:] = 7
    fastinit.random(size, 18, threads=2)
    pool._executor.shutdown(wait=True)
    assert (out == 7).all()


def test_a_fill_while_the_interpreter_ends():
    """A thread that outlives the main one, and an exit handler, which get no pool."""
    script = """
        import atexit, threading, fastinit
        fastinit.random(3, 17)
        def fill(): print(fastinit.random(3 << 20, 17, threads=2).size)
        def late():
            threading.main_thread().join()
            fill()
        threading.Thread(target=late).start()
        atexit.register(fill)
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.stdout.split(), ended.stderr) == ([str(3 << 20)] * 2, "")


def test_an_interrupt_inside_a_lock_neither_hangs_nor_changes_its_name(monkeypatch):
    """Ctrl-C while the caller takes back the lock of a condition it waited for: the lock stays unheld."""
    restore = threading.Condition._acquire_restore

    def interrupted(self, state):
        if threading.current_thread() is threading.main_thread():
            monkeypatch.setattr(threading.Condition, "_acquire_restore", restore)
            raise KeyboardInterrupt
        restore(self, state)

    out = np.zeros(8 * threads.CHUNK)
    fastinit.random(None, 17, out=out, threads=2)  # whose threads are waited for to start
    monkeypatch.setattr(threading.Condition, "_acquire_restore", interrupted)
    with contextlib.suppress(KeyboardInterrupt):
        fastinit.random(None, 17, out=out, threads=2)
    monkeypatch.undo()
    assert np.array_equal(fastinit.random(None, 17, out=out, threads=2), fastinit.random(out.size, 17, threads=1))


UNREGISTERED = """
    import concurrent.futures.thread as executors, fastinit
    class Interrupted(dict):
        def __setitem__(self, thread, queue):
            raise KeyboardInterrupt
    kept, executors._threads_queues = executors._threads_queues, Interrupted()
    try:
        fastinit.random((1024, 4099), 17, threads=2)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    executors._threads_queues = kept
"""


def test_ctrl_c_while_a_thread_starts_lets_the_process_end():
    """A thread that started, and that nobody knew of when the interpreter wanted to end."""
    command = [sys.executable, "-c", textwrap.dedent(UNREGISTERED)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    assert result.stdout == "interrupted\n"


# ---- signal handlers, and the end of the main thread -------------------------------------------------

HANDLER = """
    import signal, numpy as np, fastinit
    from concurrent.futures import ThreadPoolExecutor
    from fastinit._engine import threads

    size, inner = 6 * threads.CHUNK, []
    expected = fastinit.random(size, 17, threads=1)
    signal.signal(signal.SIGTERM, lambda *_: inner.append(fastinit.random(size, 17, threads=2)))
    submit, calls = ThreadPoolExecutor.submit, 0

    def interrupted(self, work):
        global calls
        calls += 1
        if calls == {refused}:
            raise RuntimeError("can't start new thread")
        if calls == 1:
            signal.raise_signal(signal.SIGTERM)
        return submit(self, work)

    ThreadPoolExecutor.submit = interrupted
    outer = fastinit.random(size, 17, threads=2)
    again = fastinit.random(size, 17, threads=2)
    print(len(inner), all(np.array_equal(found, expected) for found in (outer, again, *inner)))
"""


@pytest.mark.parametrize("refused", [0, 2])
def test_a_signal_handler_may_fill_while_a_fill_starts_its_threads(refused):
    """The handler waits for the pool's lock, which its own thread holds: the process stands still for ever."""
    code = textwrap.dedent(HANDLER).format(refused=refused)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert (ended.stdout, ended.stderr) == ("1 True\n", "")


HANDLERS = """
    import signal, numpy as np, fastinit
    from fastinit._engine import threads

    size, inner = 3 * threads.CHUNK, []
    expected = fastinit.random(size, 17, threads=1)

    def fill(*_):
        inner.append(np.array_equal(fastinit.random(size, 17, threads=2), expected))
        signal.setitimer(signal.ITIMER_REAL, 0.0007 * (1 + len(inner) % 7))

    signal.signal(signal.SIGALRM, fill)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    outer = []
    while len(inner) < 60:
        outer.append(np.array_equal(fastinit.random(size, 17, threads=2), expected))
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(all(inner + outer))
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no interval timer")
def test_signal_handlers_may_fill_at_any_moment_of_a_fill():
    """A lock of the chunks that the handler's own thread holds."""
    command = [sys.executable, "-c", textwrap.dedent(HANDLERS)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.stdout, ended.stderr) == ("True\n", "")


LATE = """
    import threading, fastinit
    def late():
        threading.main_thread().join()
        print(fastinit.random(9, 17).size, fastinit.random(3 << 20, 17, threads=2).size)
    threading.Thread(target=late).start()
"""


def test_the_first_fill_may_come_after_the_end_of_the_main_thread():
    """Nine weights that fail because the pool, which they do not need, cannot be imported any more."""
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LATE)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.stdout, ended.stderr) == (f"9 {3 << 20}\n", "")


def test_a_small_fill_loads_no_pool():
    """`concurrent.futures` costs more than a small fill, and cannot be loaded when the main thread is gone."""
    code = "import sys, fastinit; fastinit.random(9, 17); print('concurrent.futures.thread' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "False\n"
    )


@pytest.mark.parametrize("allowed", [0, 1, 3])
def test_work_in_order_needs_no_thread(allowed, monkeypatch):
    """`diagnose` and `propagate` where the system starts no more threads: a RuntimeError and its traceback."""
    start, started = threading.Thread.start, []

    def refuse(self):
        started.append(self)
        if len(started) > allowed:
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert list(threads.in_order(divmod, range(40), range(1, 41), count=4)) == [
        divmod(i, i + 1) for i in range(40)
    ]
    assert started


def test_an_error_of_the_work_is_not_taken_for_a_missing_thread():
    """A RuntimeError of the work itself, after which all of it would be done again."""
    done = []

    def work(number):
        done.append(number)
        if number == 3:
            raise RuntimeError("of the work")
        return number

    with pytest.raises(RuntimeError, match="of the work"):
        list(threads.in_order(work, range(9), count=2))
    assert len(done) == len(set(done))


@pytest.mark.parametrize("count", [1, 3])
def test_work_that_nobody_waits_for_any_more_is_not_begun(count):
    """Ctrl-C in a large file, after which all of its rest is still read."""
    done = []

    def work(number):
        done.append(number)
        time.sleep(0.001)
        return number

    results = threads.in_order(work, range(1000), count=count)
    assert next(results) == 0
    results.close()
    assert len(done) < 500
