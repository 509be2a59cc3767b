from collections.abc import Iterable, Sequence

Tree = Sequence[Sequence[float]]

class Colocation:
    def __init__(
        self,
        *,
        shared: bool,
        cores: float,
        interference: float,
        service_scale: float = 1.0,
        overhead_s: float = 0.0,
        service_variance: float = 0.0,
        speed_variance: float = 0.0,
        window_s: float = 100.0,
        serial: bool = False,
        trees: Iterable[Tree] = (),
    ) -> None: ...

class Candidates:
    model: Colocation
    count: int
    def __init__(
        self,
        model: Colocation,
        service_s: Iterable[float],
        rate: Iterable[float],
        publishers: Iterable[float],
        objective_s: Iterable[float],
        quantile: Iterable[float],
    ) -> None: ...
    def latencies(self, topics: Iterable[int]) -> list[float]: ...
    def features(self, topics: Iterable[int]) -> list[list[float]]: ...
    def feasible(self, topics: Iterable[int]) -> bool: ...
