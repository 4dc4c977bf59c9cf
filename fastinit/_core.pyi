from typing import Any, final

OK: int
NOT_AN_INTERVAL: int
EMPTY_INTERVAL: int
BEYOND_RANGE: int
NOT_A_SPREAD: int
UNKNOWN_LEVEL: int
UNSUPPORTED_LEVEL: int

CONSTANT: int
UNIFORM: int
CENTERED_UNIFORM: int
NORMAL: int
TRUNCATED: int

FLOAT64: int
FLOAT32: int
FLOAT16: int
BFLOAT16: int
FLOAT8_E4M3FN: int
FLOAT8_E5M2: int

STORES_AUTO: int
STORES_ORDINARY: int
STORES_STREAMING: int

FAN: int
FAN_SUM: int
FAN_PRODUCT: int

@final
class Spec:
    @property
    def status(self) -> int: ...
    def __init__(self, base: int, dtype: int, parameters: tuple[float, ...]) -> None: ...

@final
class Job:
    @property
    def size(self) -> int: ...
    def __init__(
        self,
        spec: Spec,
        out: Any,
        swapped: bool,
        state: int,
        first: int,
        draws: tuple[int, ...],
        stores: int,
    ) -> None: ...
    def run(self, begin: int, end: int) -> None: ...

@final
class Cursor:
    state: int
    def __init__(self, state: int) -> None: ...
    def next_u64(self) -> int: ...
    def next_unit_f64(self) -> float: ...
    def advance(self, draws: int) -> None: ...
    def install(self, capsule: object) -> None: ...

def draw(
    base: int,
    dtype: int,
    parameters: tuple[float, ...],
    out: Any,
    state: int,
    first: int,
    draws: tuple[int, ...],
) -> int: ...
def scale(scale: float, fan: float, kind: int, gain: float) -> tuple[float, float, float, float]: ...
def rescale(x: float, factor: float, p: float, q: float) -> float: ...
def rectifier_scale(slope: float, moment: float) -> float: ...
def keys(out: Any, state: int) -> None: ...
def narrow(values: Any, out: Any, dtype: int, itemsize: int) -> None: ...
def widen(bits: Any, out: Any, dtype: int, itemsize: int) -> None: ...

@final
class Summary:
    def __init__(self, anchor: float) -> None: ...
    def add(self, bits: Any, dtype: int, itemsize: int) -> None: ...
    def merge(self, other: Summary) -> None: ...
    def facts(self) -> dict[str, Any]: ...

def level() -> str: ...
def build() -> tuple[str, str]: ...
def self_test() -> bool: ...
def levels() -> dict[str, bool]: ...
def select_level(name: str | None) -> int: ...
def advance(state: int, draws: int) -> int: ...
