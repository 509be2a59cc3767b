"""The registration service."""

from agent.wire import directory as d
from agent.wire.base import Message
from tests.wire.samples.market import KEY

OFFERING = d.Offering("temperature", ("b1/f4/r413", "b1/f4/r415"))

SAMPLES: dict[str, Message] = {
    "register": d.Register("r1", "iad3", "tcp://127.0.0.1:5700", (OFFERING,), 60.0, (KEY,)),
    "renew": d.Renew("r2", "iad3"),
    "withdraw": d.Withdraw("r3", "iad3"),
    "open_account": d.OpenAccount("r4", "acme", (KEY,)),
    "close_account": d.CloseAccount("r5", "acme"),
    "discover": d.Discover("r6", "temperature", ("b1/f4", "b1/f9")),
    "look_up": d.LookUp("r7", ("portal",)),
    "list_accounts": d.ListAccounts("r8"),
    "follow": d.Follow("r9", "5f1d3c", 41),
    "registered": d.Registered("r1", 60.0),
    "found": d.Found(
        "r6",
        (d.Candidate("iad3", "tcp://127.0.0.1:5700", (KEY,), ("b1/f4/r413", "b1/f4/r415")),),
        ("b1/f9",),
        age_s=2.5,
    ),
    "accounts": d.Accounts("r8", (d.Account("acme", "csp", (KEY,)),)),
    "changes": d.Changes(
        "r9",
        "5f1d3c",
        43,
        whole=False,
        entries=(
            d.DirectoryEntry(
                42, d.Account("iad3", "iad", (KEY,)), "tcp://127.0.0.1:5700", (OFFERING,), 60.0
            ),
            d.DirectoryEntry(43, d.Account("acme", "csp", ()), gone=True),
        ),
    ),
    "denied": d.Denied("r2", "unknown", "no IAD iad3 is registered; register again"),
}
