from collections.abc import Iterable

from typing_extensions import Buffer

class ServiceTimes:
    @classmethod
    def exponential_sum(cls, means: Iterable[float], *, known: float = 0.0) -> ServiceTimes: ...
    @classmethod
    def lognormal(
        cls, mean_s: float, sigma: float, plus_s: float = 0.0, *, known: float = 0.0
    ) -> ServiceTimes: ...
    @classmethod
    def quantiles(cls, values: Buffer, *, exponential_tail_s: float) -> ServiceTimes: ...
    @classmethod
    def given(cls, values: Buffer, expected: Buffer | None = None) -> ServiceTimes: ...
