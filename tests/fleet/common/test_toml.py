"""What `dump` writes, `load` reads back equal."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agent.wire import config, edge_config, master_config
from fleet.common.toml import dump

WORD = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


def test_a_master_config_reads_back_equal(tmp_path: Path) -> None:
    written = master_config.MasterConfig(
        iad=master_config.MasterIdentity(name="iad1"),
        sockets=master_config.MasterSockets(
            public="tcp://127.0.0.1:1", nodes="tcp://127.0.0.1:2", operator="ipc://x"
        ),
        pool=(
            master_config.PoolMember(iad="iad1", address="tcp://127.0.0.1:1", areas=("a/b", "c")),
            master_config.PoolMember(iad="iad2", address="tcp://127.0.0.1:4", areas=("d",)),
        ),
    )
    path = tmp_path / "config.toml"
    path.write_text(dump(written), encoding="utf-8")
    assert config.load(path, master_config.MasterConfig) == written


@given(
    WORD.filter(lambda word: "\0" not in word),  # which no path may hold
    st.dictionaries(
        st.from_regex(r"\A[a-z_]{1,9}\Z"), WORD | st.integers(0, 10**9) | st.booleans()
    ),
)
def test_any_text_survives(path: str, options: dict[str, object]) -> None:
    import tomllib

    written = edge_config.EdgeConfig(
        node=edge_config.EdgeIdentity(name="n1", areas=("a",)),
        master=edge_config.EdgeMaster(address="tcp://127.0.0.1:2"),
        sensor=(edge_config.EdgeSensor(driver="replay", options=options),),
        history=edge_config.EdgeHistory(path=path),
    )
    read = config.parse(tomllib.loads(dump(written)), edge_config.EdgeConfig, "test")
    assert read == written
