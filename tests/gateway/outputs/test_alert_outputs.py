"""Alerts to ntfy and by e-mail: each one, again until the receiver has it, also after a restart."""

import contextlib
import email
import email.policy
import json
import socket
import ssl
import threading

import pytest

from agent.gateway.feed.alert_log import Logged
from agent.gateway.output_config import GatewayEmail, GatewayNtfy
from agent.gateway.outputs.alert_line import AlertLine
from agent.gateway.outputs.alert_sender import AlertSender
from agent.gateway.outputs.alert_text import body, subject
from agent.gateway.outputs.mail import MailServer, email_output
from agent.gateway.outputs.mail import letter as letter_about
from agent.gateway.outputs.ntfy import ntfy_output
from agent.runtime.retrying import Answered, Retrying
from agent.wire.config import ConfigError
from testkit.waiting import PATIENCE_S, wait_until
from tests.gateway.outputs.rig import Rig, room
from tests.gateway.outputs.smtp_server import SmtpServer, make_certificate, server_context
from tests.gateway.samples import notification
from tests.master.webhook_receiver import Receiver


@pytest.fixture
def rig(tmp_path):
    made = Rig(tmp_path)
    made.rooms.show(room("b1/r1", name="Meeting 4.13"))
    yield made
    made.close()


@pytest.fixture
def stop():
    """What is to be ended after the test."""
    made = []
    yield made.append
    for each in reversed(made):
        each()


class NtfyReceiver(Receiver):
    """Receives posts without the headers of webhooks."""


def ntfy(rig, stop, receiver, **more):
    config = GatewayNtfy(name="me", url=f"http://127.0.0.1:{receiver.port}/rooms", **more)
    made = ntfy_output(config, rig.sources, jitter=lambda: 0.0)
    made.start()
    stop(made.stop)
    return made


def receive(stop, *answers):
    made = NtfyReceiver(*answers)
    stop(made.close)
    return made


def test_an_output_goes_on_once_the_log_can_be_read_again(rig, stop, monkeypatch):
    receiver = receive(stop, 200)
    made = ntfy(rig, stop, receiver)
    rig.alert(1)
    receiver.next()
    with monkeypatch.context() as patched:

        def fails(*_):
            raise OSError("the log cannot be read: disk I/O error")

        patched.setattr(rig.sources.alerts, "read", fails)
        rig.alert(2)
        state = wait_until(made.state, lambda state: state.state == "down")
        assert "disk I/O error" in state.last_error
    rig.alert(3, kind="cleared")
    assert [receiver.next().message["title"].split()[1] for _ in range(2)] == ["in", "is"]
    wait_until(made.state, lambda state: state.state == "up")


def test_an_alert_is_one_post_with_the_rooms_name(rig, stop):
    receiver = receive(stop, 200)
    made = ntfy(rig, stop, receiver, token_file=rig.secret("token", "tk_1"))
    rig.alert(1)
    rig.alert(2, kind="cleared")
    first, second = receiver.next(), receiver.next()
    assert first.path == "/"
    assert first.headers["authorization"] == "Bearer tk_1"
    assert first.message == {
        "topic": "rooms",
        "title": "hot in Meeting 4.13 (b1/r1): temperature 31.5",
        "message": "1970-01-01 00:00:00 UTC",
        "priority": 4,
        "tags": ["warning"],
    }
    assert second.message["title"].startswith("hot is over in Meeting 4.13")
    assert second.message["priority"] == 3
    wait_until(made.state, lambda state: (state.state, state.delivered) == ("up", 2))
    assert rig.alerts.cursor("ntfy me") == 2


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (23.174999237060547, "23.17"),
        (23.5, "23.5"),
        (0.012345678, "0.01235"),
        (1043.2718, "1043"),
        (1234567.0, "1234567"),
        (-12345.6, "-12346"),
        (1e300, "1e+300"),
        (7, "7"),
        (True, "True"),
    ],
)
def test_numbers_are_rounded_for_people(value, shown):
    told = notification()
    told.attributes.update(value=value, rate=value)
    entry = Logged(1, 0, told)
    assert subject(entry, lambda _: "").endswith(f": temperature {shown}")
    assert body(entry, lambda _: "").endswith(f", rate: {shown}")


@pytest.mark.parametrize(
    ("kind", "what"), [("input", "message"), ("output", "output"), ("raised", "raised")]
)
def test_a_message_of_a_topic_does_not_read_like_an_alert(kind, what):
    told = notification(kind=kind, trigger="fire")
    told.attributes["topic"] = "x"
    entry = Logged(1, 0, told)
    head = f"{what} of topic x from iad1: Meeting (b1/r1)"
    assert subject(entry, lambda _: "Meeting") == head
    assert body(entry, lambda _: "Meeting") == (
        f"{head}\n1970-01-01 00:00:00 UTC, trigger: fire, metric: temperature, value: 31.5"
    )
    told.attributes.pop("area")
    assert subject(entry, lambda _: "Meeting") == f"{what} of topic x from iad1"


def test_what_fails_is_posted_again_and_a_restart_goes_on_there(rig, stop):
    receiver = receive(stop, 500)
    made = ntfy(rig, stop, receiver)
    rig.alert(1)
    receiver.next()
    wait_until(made.state, lambda state: state.last_error == "500 Internal Server Error")
    made.stop()
    rig.alert(2)
    rig.close()
    rig.open()
    receiver.answers[:] = [200]
    ntfy(rig, stop, receiver)
    titles = [receiver.next().message["title"] for _ in range(2)]
    assert titles == ["hot in b1/r1: temperature 31.5"] * 2
    wait_until(lambda: rig.alerts.cursor("ntfy me"), lambda position: position == 2)


def test_only_what_the_filter_lets_through(rig, stop):
    receiver = receive(stop, 200)
    ntfy(rig, stop, receiver, filter='trigger = "damp" and area under "b1"')
    rig.alert(1)
    rig.alert(2, trigger="damp", area="b2")
    rig.alert(3, trigger="damp")
    assert receiver.next().message["title"].startswith("damp")
    wait_until(lambda: rig.alerts.cursor("ntfy me"), lambda position: position == 3)
    assert receiver.posts.empty()


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"filter": "value >"}, "ntfy.filter of me: "),
        ({"token_file": "nowhere"}, "nowhere: No such file"),
        ({"ca": "nowhere.pem", "url": "https://h/t"}, "ntfy.ca of me: there is no file"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(rig, keys, why):
    config = GatewayNtfy(**({"name": "me", "url": "http://127.0.0.1/t"} | keys))
    with pytest.raises(ConfigError) as error:
        ntfy_output(config, rig.sources)
    assert why in str(error.value)
    assert "\n" not in str(error.value)


# --- e-mail --------------------------------------------------------------------------------------


def mail(rig, stop, server, *, host="localhost", security="none", **more):
    config = GatewayEmail(
        server=f"{host}:{server.port}",
        sender="rooms@example.com",
        to=("me@example.com", "you@example.com"),
        security=security,
        **{"every_s": 0.0} | more,
    )
    made = email_output(config, rig.sources, jitter=lambda: 0.0)
    made.start()
    stop(made.stop)
    return made


def serve(stop, **options):
    made = SmtpServer(**options)
    stop(made.close)
    return made


def letter(server):
    return email.message_from_bytes(
        server.mail.get(timeout=PATIENCE_S), policy=email.policy.default
    )


def test_alerts_that_wait_go_together(rig, stop):
    server = serve(stop)
    server.replies["QUIT"] = "554 not polite"  # it has taken the mail
    rig.alerts.cursor("email")
    for number in range(1, 4):
        rig.alert(number, trigger=f"hot{number}")
    made = mail(rig, stop, server)
    came = letter(server)
    assert came["Subject"] == ("[home] hot1 in Meeting 4.13 (b1/r1): temperature 31.5, and 2 more")
    assert came["To"] == "me@example.com, you@example.com"
    assert came.get_content().count("Meeting 4.13 (b1/r1)") == 3
    wait_until(made.state, lambda state: state.delivered == 3)
    assert rig.alerts.cursor("email") == 3


def test_a_recipient_that_the_server_refuses_is_named(rig, stop):
    server = serve(stop)
    server.replies["rcpt to:<you@example.com>"] = "550 no such person"
    made = mail(rig, stop, server)
    for number in range(1, 3):
        rig.alert(number)
        letter(server)
        wait_until(made.state, lambda state, sent=number: state.delivered == sent)
    why = "the server refuses you@example.com (550 no such person)"
    assert (made.state().state, made.state().last_error) == ("up", why)
    assert rig.said == [f"email: delivers, but {why}\n"], "once"
    del server.replies["rcpt to:<you@example.com>"]
    rig.alert(3)
    wait_until(made.state, lambda state: state.delivered == 3 and not state.last_error)


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_over_tls_with_a_password(rig, stop, security):
    context = server_context(*make_certificate(rig.folder))
    server = serve(stop, password="right", **{security: context})
    rig.secret("password", "right")
    mail(rig, stop, server, security=security, ca="ca.pem", user="u", password_file="password")
    rig.alert(1)
    assert "hot" in letter(server)["Subject"]
    assert "AUTH" in server.commands


def test_nothing_is_said_to_a_server_without_starttls(rig, stop):
    server = serve(stop, password="right")
    rig.secret("password", "right")
    made = mail(rig, stop, server, security="starttls", user="u", password_file="password")
    rig.alert(1)
    wait_until(made.state, lambda state: "STARTTLS" in state.last_error)
    assert "AUTH" not in server.commands
    assert rig.alerts.cursor("email") == 0


@pytest.mark.parametrize(
    ("word", "reply", "given_up"),
    [("MAIL", "451 later", False), ("RCPT", "550 nobody", True), ("DATA", "554 no", True)],
)
def test_what_a_server_answers(rig, stop, word, reply, given_up):
    server = serve(stop)
    server.replies[word] = reply
    made = mail(rig, stop, server, give_up_s=1e-3)
    rig.alert(1)
    wait_until(made.state, lambda state: state.failed)
    if given_up:
        wait_until(lambda: rig.alerts.cursor("email"), lambda position: position == 1)
        assert any("gave up alert 1" in line for line in rig.said)
        return
    del server.replies[word]
    letter(server)
    wait_until(lambda: rig.alerts.cursor("email"), lambda position: position == 1)


def test_an_alert_that_a_server_refuses_takes_no_others_with_it(rig):
    """Anybody may word a message of a topic so that a filter of spam or viruses refuses it."""
    cursor, mails, now = rig.alerts.cursor("email"), [], 0.0
    for number in range(1, 8):
        rig.alert(number, trigger="spam" if number == 4 else f"hot{number}")

    def attempt(entries):
        mails.append([each.position for each in entries])
        return Answered(403, "554 spam") if 4 in mails[-1] else Answered(250, "")

    retrying = Retrying(jitter=lambda: 0.0, give_up_s=86_400.0)
    line = AlertLine(cursor, retrying, lambda _: True, 50)
    sender = AlertSender("email", "email", rig.sources, line, attempt, lambda: now, 60.0)
    while rig.alerts.cursor("email") < 7:
        sender.turn()
        now += 60.0
    assert line.given_up == 1
    assert [line for line in rig.said if "gave up" in line] == [
        "email: gave up alert 4, refused for too long: 554 spam\n"
    ]
    assert mails[1::2][:3] == [[1], [2], [3]], "those before it within minutes"
    assert now < 2 * 86_400.0
    sender.stop()


@pytest.fixture
def server_by_hand():
    """Each connection is answered by the test."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@pytest.mark.parametrize("security", ["none", "tls"])
def test_a_byte_now_and_then_does_not_make_a_mail_take_longer(server_by_hand, security):
    """Each read would have its own time-out: in a reply, and in the handshake of TLS."""
    message, told = letter_of_one(), []
    context = ssl.create_default_context()  # on a busy machine that takes the attempt's whole time
    port = server_by_hand.getsockname()[1]
    sender = MailServer("127.0.0.1", port, security, lambda: context, 0.3)
    thread = threading.Thread(target=lambda: told.append(sender.send(message)))
    thread.start()
    connection, _ = server_by_hand.accept()
    record = b"\x16\x03\x03\x40\x00" if security == "tls" else b"220"
    with connection, contextlib.suppress(OSError):  # it hangs up
        connection.sendall(record)
        for _ in range(int(PATIENCE_S / 0.05)):
            connection.sendall(b"x")
            thread.join(0.05)
            if not thread.is_alive():
                break
    thread.join(PATIENCE_S)
    assert told == [Answered(0, "no answer within 0.3 s")]


@pytest.mark.parametrize(("security", "hinted"), [("starttls", True), ("tls", False)])
def test_a_server_that_waits_for_tls_has_a_hint(monkeypatch, server_by_hand, security, hinted):
    port = server_by_hand.getsockname()[1]
    monkeypatch.setattr("agent.gateway.outputs.mail.TLS_PORT", port)
    context = ssl.create_default_context()
    sender = MailServer("127.0.0.1", port, security, lambda: context, 0.3)
    line = sender.send(letter_of_one()).line
    assert line.startswith("no answer within 0.3 s")
    assert ("security = " in line) == hinted


def test_a_reply_without_end_is_not_collected(server_by_hand):
    told = []
    sender = MailServer(
        "127.0.0.1", server_by_hand.getsockname()[1], "none", ssl.create_default_context, 60.0
    )
    thread = threading.Thread(target=lambda: told.append(sender.send(letter_of_one())))
    thread.start()
    connection, _ = server_by_hand.accept()
    with connection, contextlib.suppress(OSError):  # it hangs up
        connection.sendall(b"220-x\r\n" * 200)
        thread.join(PATIENCE_S)
    thread.join(PATIENCE_S)
    [answered] = told
    assert answered.status == 0
    assert "a reply of more than 100 lines" in answered.line


def letter_of_one():
    entry = Logged(1, 1_000, notification())
    return letter_about([entry], "a@example.com", ["b@example.com"], "home", lambda _: "")


def test_a_hostile_attribute_begins_no_header(rig, stop):
    server = serve(stop)
    rig.alert(1)
    made = mail(rig, stop, server)
    rig.alert(2, trigger="x\r\nBcc: all@example.com", area="b1\n\n.\r\nQUIT")
    came = letter(server)
    assert came["Bcc"] is None
    wait_until(made.state, lambda state: state.delivered == 1)


def test_a_loss_is_told(rig, stop):
    from agent.gateway.feed.alert_log import Loss

    receiver = receive(stop, 200)
    ntfy(rig, stop, receiver)
    rig.alerts.append(None, Loss("there was no room", 3, 9))
    told = receiver.next().message
    assert told["title"] == "alerts were lost"
    assert json.dumps(told).count("3 to 9") == 1
