"""Training of sanderling's class advances: learnt in one run, then frozen for all others.

Advances are learnt from finished queries, which couples all nodes; frozen ones leave the nodes
independent, and ten times as fast to simulate.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec.structs import replace

from lab.simulation.contenders import CONTENDERS
from lab.simulation.points import Key, Result
from lab.simulation.run import FIRST_GUESS_PER_S, Setting, World
from lab.simulation.table_v import CLASSES

# Not one of the measured seeds.
SEED: Final = 1_000_003
# A class of which one query in a hundred may miss, and to which every tenth query belongs, provides
# little evidence: runs are longer than the measured ones where that is cheap, by nodes.
TIMES_AS_LONG: Final = {100: 10, 1_000: 2}


def training_of(setting: Setting) -> Setting:
    """The training run for measurements of this setting, one for all readings of the fanouts."""
    queries = TIMES_AS_LONG.get(setting.size.nodes, 1) * setting.queries
    return Setting(setting.size, "query", "clip", queries, SEED)


def is_training(setting: Setting) -> bool:
    """Whether the setting is a training run."""
    return setting.seed == SEED


def train(world: World, key: Key) -> Result:
    """Search for the load that is sustained without advances, and learn there: an advance is the
    mean over the second half of the queries."""
    contender = replace(CONTENDERS[key.contender], trained_as=None)
    load_per_s, points = world.search(key.contender, FIRST_GUESS_PER_S)
    demotion = "never" if contender.demotion == "never" else "task"
    learner = replace(contender, demotion=demotion, online=True)
    run = world.run(learner, max(load_per_s, FIRST_GUESS_PER_S / 10.0))
    given_s = np.asarray(run.query_advance_s)
    later = np.arange(len(given_s)) >= len(given_s) // 2
    of_class = [later & (world.draw.query_class == k) for k in range(len(CLASSES))]
    advance_s = tuple(float(given_s[chosen].mean()) for chosen in of_class)
    return Result(key, load_per_s, tuple(points), advance_s)
