"""An inventory that uses every key there is: what works on it leaves out no feature."""

from __future__ import annotations

import tomllib
from typing import Final

from agent.wire import config
from fleet.inventory.model import Inventory

TEXT: Final = """
name = "everything"

[ssh]
user = "pi"
port = 2222
key = "keys/ssh/operator"
connect_s = 5.0

[releases]
pin = "0.1.0-0123abcd"
keep = 4

[placement]
delegate = "iad2"
model = "latency-model.json"
find = true
follow = true
every_s = 600.0
window_s = 1200.0
drift = true
move_cost = 0.02
opening_cost = 0.5
compute = 1.5
storage_bytes = 1e9
most_processors = 64
partners = ["iad2", "iad3"]
alone = false

[rooms]
"b1/f1" = "First floor"

[overlay]
links = [["west", "east"]]
clusters = 2
routing = "snr"

[[jump]]
name = "gate"
address = "gate.example.com"
user = "jump"
port = 2022

[[jump]]
name = "barn"
address = "10.9.0.1"

[[person]]
name = "ada"
roles = ["client", "operator"]
ssh_keys = [
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFoX8rAPkbUFqvkiSm5YDyO0cdhlHQYFo2W3PUWUVTMd ada",
]

[[person]]
name = "app"
roles = ["client"]
services = ["default"]
rate_per_s = 50

[[group]]
name = "canary"
canary = true

[[group]]
name = "sensing"
release = "0.1.0-4567cdef"
history = { path = "/srv/h.sqlite", retention_s = 86400.0, retention_bytes = 2000000, \
group_readings = 100, commit_s = 5.0 }
pods = { count = 2, containers = true, emulate = "pi4" }
homes = { other = ["iad3"] }
clone = { processor = "comfort_index", set = { index = "discomfort" }, every_s = 5.0, \
channels = ["temperature", "humidity"], peers = ["iad1/n1", "iad1/n2"], leaves = true, \
standby = true, peers_where = "discomfort > 24", service = "climate", \
slo = { percentile = 90.0, latency_ms = 200.0 }, \
limits = { memory_bytes = 67108864, cpu_s = 0.5 } }
[[group.sensor]]
driver = "dht"
name = "desk"
interval_s = 2.5
place = "desk"
options = { model = "dht22", pin = "D4" }
[group.sensor.channels.temperature]
name = "warmth"
unit = "celsius"
offset = -0.5
gain = 1.1
low = -20.0
high = 60.0
max_step = 1.0
max_rate_per_s = 0.5
flat_s = 600.0
drift = 2.0
[[group.sensor]]
driver = "iio"
options = { device = "dht11", channels = ["temperature"] }
[[group.trigger]]
name = "hot"
condition = "warmth > 30"
clear = "warmth < 28"
for_s = 10.0
clear_for_s = 20.0
window_s = 30.0
unknown_s = 100.0
areas = ["b1/f1/r1/desk"]

[[iad]]
name = "iad1"
areas = ["b1", "b2"]
jump = "gate"
overlay = { vertex = "west", cluster = 1, advertise = [{ filter = 'metric = "warmth"' }] }
[[iad.offers]]
capability = "temperature"
areas = ["b1"]
[iad.master]
address = "10.1.0.10"
listen = "10.1.0.11"
nodes_address = "10.1.0.12"
public_port = 6700
nodes_port = 6701
operator_port = 6702
release = "0.1.0-89abef01"
user = "root"
port = 2200
jump = ""
metrics = { address = "127.0.0.1:9701" }
[iad.master.scheduling]
policy = "tedfq"
window_samples = 5000
window_s = 600.0
cold_start_ms = 50.0
timeout_factor = 3.0
[iad.master.liveness]
heartbeat_s = 2.0
lost_after = 4
[iad.master.autoscale]
enabled = true
window_s = 20.0
above_percent = 3.0
hysteresis = 0.5
cool_down_s = 15.0
[iad.master.clients]
rate_per_s = 500.0
burst_s = 1.0
most_watches = 50
most_subscriptions = 60
most_connections = 2048
watched_readings_per_s = 50000.0
[iad.master.placement]
model = "latency-model.json"
drift = false
move_cost = 0.03
opening_cost = 0.0
compute = 0.5
storage_bytes = 1e8
most_processors = 16
partners = ["iad2"]
alone = true
[iad.master.records]
directory = "/srv/records"
rotate_bytes = 8192
keep_files = 8
flush_s = 2.0
[iad.master.notifications]
remembered = 8192
[[iad.master.webhook]]
name = "pager"
url = "https://pager.example.com/hooks/4711"
filter = 'kind = "raised"'
ca = "/etc/ssl/pager.pem"
timeout_s = 5.0
longest_pause_s = 60.0
give_up_s = 3600.0
[[iad.master.webhook]]
name = "board"
url = "http://10.1.0.99/board"
filter = "*"
[[iad.node]]
name = "n1"
address = "10.1.1.1"
areas = ["b1/f1/r1", "b1/f1/r2"]
groups = ["sensing", "canary"]
model = "pi3"
[[iad.node]]
name = "n2"
address = "10.1.1.2"
areas = ["b2"]
model = "zero2w"
release = "0.1.0-23456789"
user = "fleet"
port = 22
jump = "barn"
history = { retention_s = 100.0 }
pods = { count = 3 }
metrics = { address = "127.0.0.1:9702" }
homes = { other = ["iad3", "iad4"], follow_s = 60.0 }
clone = { processor = "comfort_index", leaves = true, peers = ["iad1/n1", "other/n1"] }
[[iad.node.sensor]]
driver = "replay"
options = { room = "413" }
[[iad.node.sensor]]
driver = "serial_line"
options = { port = "/dev/ttyUSB0", format = "csv", \
channels = [{ name = "co2", unit = "ppm", field = 1, low = 0, high = 5000 }] }
[[iad.node.trigger]]
name = "jump"
condition = "rate(temperature) > 2/min"

[[iad]]
name = "iad2"
overlay = { vertex = "west" }
[iad.master]
address = "10.2.0.10"
local = true
[[iad.node]]
name = "n1"
address = "10.2.1.1"
areas = ["b3"]
model = "host"
[[iad.node.sensor]]
driver = "synthetic"
options = { seed = 1 }

[[iad]]
name = "iad3"
overlay = { vertex = "east" }
[iad.master]
address = "10.3.0.10"

[[iad]]
name = "iad4"
overlay = { vertex = "east", cluster = 1 }
[iad.master]
address = "10.4.0.10"
"""


def complete() -> Inventory:
    """Without contradictions."""
    return config.parse(tomllib.loads(TEXT), Inventory, "fleet.toml")
