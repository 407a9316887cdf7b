"""What happens to the machines of the journey, and when: all of it follows from the seed."""

import random
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "kill process", "machine burns", "machine suspended", "worker stopped", "store away", "primary lost",
    "second server away", "power lost",
]  # fmt: skip
KILL_EVERY_S = (6.0, 14.0)
FAULTS_FROM, FAULTS_UNTIL = 0.08, 0.9  # of the time: then all is whole again
BURNS = (0.25, 0.5, 0.72)
STORE_AWAY_S = 60.0
SUSPENDED_S, WORKER_STOPPED_S = 75.0, 45.0  # a lease is 30 s
PRIMARY_AWAY_S, SECOND_AWAY_S = 45.0, 40.0
NEW_MACHINE_S = 5.0  # after the old one burned


@dataclass(frozen=True, order=True)
class Fault:
    """It begins at `at` seconds and lasts for `length_s`; `target`: the number of a machine."""

    at: float
    kind: Kind
    target: int
    length_s: float = 0.0


def plan_faults(seed: int, seconds: float, machines: int, *, has_store: bool, servers: int) -> list[Fault]:
    rng = random.Random(seed)

    def place(share: float) -> float:
        return seconds * (share + rng.uniform(-0.02, 0.02))

    def any_machine() -> int:
        return rng.randrange(machines)

    faults, at = list[Fault](), seconds * FAULTS_FROM
    while at < seconds * FAULTS_UNTIL:
        faults.append(Fault(at, "kill process", any_machine()))
        at += rng.uniform(*KILL_EVERY_S)
    burns: Kind = "machine burns" if has_store else "power lost"
    faults += [Fault(place(share), burns, any_machine(), NEW_MACHINE_S) for share in BURNS]
    faults += [Fault(place(share), "machine suspended", any_machine(), SUSPENDED_S) for share in (0.2, 0.55)]
    faults += [Fault(place(share), "worker stopped", any_machine(), WORKER_STOPPED_S) for share in (0.12, 0.45, 0.65)]
    if has_store:
        faults.append(Fault(place(0.32), "store away", 0, STORE_AWAY_S))
        faults.append(Fault(place(0.6), "primary lost", 0, PRIMARY_AWAY_S))
    if servers > 1:
        faults += [Fault(place(share), "second server away", 0, SECOND_AWAY_S) for share in (0.15, 0.4)]
    return sorted(faults)
