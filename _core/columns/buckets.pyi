class BucketSums:
    start_ms: int
    length_ms: int
    count: int

    def __init__(self, start_ms: int, length_ms: int, count: int) -> None: ...
    def add(
        self, times: bytes, values: bytes, flags: bytes | None, bad: int, *, gaps_are_bad: bool
    ) -> None: ...
    def add_total(
        self,
        time_ms: int,
        count: int,
        low: float,
        high: float,
        total: float,
        bad: int,
        suspect: int,
    ) -> None: ...
    def add_buckets(
        self,
        start_ms: int,
        counts: bytes,
        lows: bytes,
        means: bytes,
        highs: bytes,
        bads: bytes | None,
        suspects: bytes | None,
    ) -> None: ...
    def columns(self) -> tuple[bytes, bytes, bytes, bytes, bytes | None, bytes | None]: ...
