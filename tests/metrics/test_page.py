"""The page: what it shows, and what becomes of a scrape when the loop hangs, stops or is slow."""

import contextlib
import select
import socket
import threading
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent.metrics.directory_families import DRS
from agent.metrics.edge_families import EDGE
from agent.metrics.families import BUILD_INFO, Family
from agent.metrics.gateway_families import GATEWAY, READINGS
from agent.metrics.master_families import MASTER
from agent.metrics.numbers import Count, Histogram, gauge
from agent.metrics.page import MAX_SCRAPES, Page
from agent.wire.config import Metrics
from fleet.testbed.ports import free_address
from testkit.waiting import PATIENCE_S, wait_until

ASKED = Family("asked_total", "counter", ("who",), "questions", "How often.")
TOOK = Family("took_seconds", "histogram", (), "seconds", "How long.", (0.00001, 0.5, 1.0))
WAITS = Family("waits", "gauge", (), "", "How many wait.")
NOTHING = Family("nothing", "gauge", ("name",), "", "Has no samples.")


def numbers():
    asked, took = Count(ASKED), Histogram(TOOK)
    asked.add(('a "quoted" \\ name\n',), 3)
    took.observe((), [0.2, 0.5, 2.0])
    return [asked.samples(), took.samples(), gauge(WAITS, [((), 7)])]


def http(page, query=""):
    address = f"http://127.0.0.1:{page.port}/metrics{query}"
    with urllib.request.urlopen(address, timeout=PATIENCE_S) as response:
        return response.read().decode()


@pytest.fixture
def make_page():
    pages = []

    def make(take=numbers, **options):
        config = Metrics(free_address().removeprefix("tcp://"))
        families = (BUILD_INFO, ASKED, TOOK, WAITS, NOTHING)
        pages.append(Page(config, families, take, **options))
        return pages[-1]

    yield make
    for page in pages:
        page.close()


@pytest.fixture
def loop():
    """Runs `page.turn()` as often as the loop of an agent would."""
    stop_read, stop_write = socket.socketpair()
    threads = []

    def run(page):
        def turns():
            while stop_read not in select.select([page.fileno, stop_read], [], [])[0]:
                page.turn()

        threads.append(threading.Thread(target=turns))
        threads[-1].start()

    yield run
    stop_write.close()
    for thread in threads:
        thread.join()
    stop_read.close()


def test_the_text_says_what_was_given(make_page, loop):
    page = make_page()
    loop(page)
    found = {family.name: family for family in text_string_to_metric_families(http(page))}
    assert found["asked"].type == "counter"
    assert found["asked"].documentation == "How often."
    [sample] = found["asked"].samples
    assert (sample.name, sample.value) == ("asked_total", 3)
    assert sample.labels == {"who": 'a "quoted" \\ name\n'}
    buckets = {s.labels.get("le", s.name): s.value for s in found["took_seconds"].samples}
    assert buckets == {
        "1e-05": 0, "0.5": 2, "1.0": 2, "+Inf": 3, "took_seconds_count": 3, "took_seconds_sum": 2.7
    }  # fmt: skip
    assert found["waits"].samples[0].value == 7
    assert (found["nothing"].type, found["nothing"].samples) == ("gauge", [])
    assert found["sanderling_build_info"].samples[0].labels["version"]
    assert {"process_cpu_seconds", "python_info"} <= set(found)


def test_some_metrics_only(make_page, loop):
    page = make_page()
    loop(page)
    text = http(page, "?name[]=waits")
    assert "waits 7.0" in text
    assert "asked" not in text


def test_a_loop_that_hangs_fails_the_scrape(make_page):
    page = make_page(patience_s=0.01)
    with pytest.raises(urllib.error.HTTPError) as caught:
        http(page)
    with caught.value as answer:
        assert answer.code == 503
        assert answer.read() == b"the agent's loop gave no numbers in time\n"


def test_a_scrape_that_waits_while_the_page_closes_is_told(make_page):
    page = make_page(patience_s=60.0)
    codes = []

    def scrape():
        try:
            http(page)
        except urllib.error.HTTPError as error:
            with error:
                codes.append(error.code)

    thread = threading.Thread(target=scrape)
    thread.start()
    select.select([page.fileno], [], [])
    closed, page.close = page.close, lambda: None
    closed()
    thread.join()
    assert codes == [503]
    with pytest.raises(urllib.error.URLError):
        http(page)


def test_a_client_that_says_nothing_holds_nobody_up(make_page, loop):
    page = make_page()
    loop(page)
    with socket.create_connection(("127.0.0.1", page.port)):
        assert "waits 7.0" in http(page)


def test_a_taken_address_is_one_line(make_page):
    page = make_page()
    with pytest.raises(OSError) as caught:
        Page(Metrics(f"127.0.0.1:{page.port}"), (), list)
    assert str(caught.value) == (
        f"cannot serve metrics on 127.0.0.1:{page.port}: Address already in use"
    )


@pytest.mark.parametrize("address", ["127.0.0.1:0", "127.0.0.1:65536"])
def test_a_port_that_is_none(address):
    with pytest.raises(ValueError, match=r"metrics\.address .* ports go from 1 to 65535"):
        Metrics(address)


def test_clients_that_never_end_their_request_keep_nobody_out(make_page, loop):
    page = make_page()
    loop(page)
    before = threading.active_count()
    with contextlib.ExitStack() as stack:
        slow = []
        for _ in range(3 * MAX_SCRAPES):
            made = socket.create_connection(("127.0.0.1", page.port), timeout=PATIENCE_S)
            slow.append(stack.enter_context(made))
            made.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        for each in slow[: 2 * MAX_SCRAPES]:
            with contextlib.suppress(ConnectionResetError):  # what it sent came too late
                assert each.recv(1) == b"", "the oldest is still served"
        assert "asked_total" in http(page)
        # The threads of those that are cut end soon.
        wait_until(threading.active_count, lambda count: count <= before + MAX_SCRAPES + 1)


def test_counters_alone_end_in_total():
    families = [*MASTER, *DRS, *EDGE, *GATEWAY, *READINGS]
    wrong = [f.name for f in families if f.name.endswith("_total") != (f.kind == "counter")]
    assert wrong == []
