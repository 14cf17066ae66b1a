"""The inputs of vectors.json for DQN, prioritized replay and vector environments."""

from typing import Any

from tests.conformance.cases import MASKS, Case, case, numbers


def of_replay() -> dict[str, list[Case]]:
    """The cases of these functions, by name."""
    return _dqn() | _priorities() | _vectors()


def _dqn() -> dict[str, list[Case]]:
    every, some, one = MASKS.values()
    usual = dict(q=0.75, reward=-1.0, terminated=False, next_q=[1.0, 3.0, -2.0, 0.5], legal=every, gamma=0.99)
    negative = [-3.0, 2.0, -1.5, 0.0]
    rows = {
        "an ordinary step": usual,
        "a termination: nothing follows": usual | {"terminated": True},
        "the values after a termination are NaN, and are not read": usual | {"terminated": True, "next_q": ["NaN"] * 4},
        "the best action is masked": usual | {"legal": some},
        "valid actions are negative, masked ones are not": usual | {"legal": some, "next_q": negative},
        "one valid action": usual | {"legal": one},
        "γ = 0": usual | {"gamma": 0.0},
    }
    chosen = {"next_online_q": [2.0, 1.0, 2.5, -1.0]}  # chooses another action than the target network
    swapped = [case(name, **row, **chosen) for name, row in rows.items()]
    swapped.append(
        case("the online network's best is masked", **usual | {"legal": [True, True, False, True]}, **chosen)
    )
    return {"dqn_error": [case(name, **row) for name, row in rows.items()], "double_dqn_error": swapped}


def _priorities() -> dict[str, list[Case]]:
    many = [abs(x) for x in numbers("many", 40)]
    uniforms = numbers("uniforms", 8, 0, 1)

    def draws(name: str, priorities: list[float], uniforms: list[float], alpha: float = 1.0, **changes: Any) -> Case:
        inputs = dict(capacity=len(priorities), indices=list(range(len(priorities))), priorities=priorities)
        return case(name, **(inputs | dict(alpha=alpha, uniforms=uniforms) | changes))

    proportional = [
        draws("four items", [1.0, 2.0, 3.0, 4.0], uniforms),
        draws("α = 0.6", [1.0, 2.0, 3.0, 4.0], uniforms, 0.6),
        draws("α = 0: uniform", [1.0, 20.0, 3.0, 0.5], uniforms, 0.0),
        draws("equal priorities", [0.5] * 5, uniforms),
        draws("positions exactly between two items belong to the later one", [1.0, 1.0, 2.0, 4.0], [0.0] * 4),
        draws("the end of the mass", [1.0, 1.0, 2.0, 4.0], [1 - 2**-20] * 4),
        draws("priorities of 0 are never drawn, not at the ends either", [0.0, 1.0, 0.0, 3.0, 0.0], [0.0, 0.999]),
        draws("α = 0 draws also an item of priority 0, since 0^0 = 1", [0.0, 1.0], [0.5, 0.5], 0.0),
        draws("one item", [0.25], uniforms),
        draws("a capacity that is no power of two, 40 items", many, numbers("forty", 16, 0, 1), 0.7),
        draws("priorities of 1e-12 and 1e12", [1e-12, 1e12, 1e-12, 1e12], uniforms),
        draws("most places are empty", [1.0, 3.0], uniforms, capacity=100, indices=[17, 63]),
        draws(
            "a new priority replaces the old one",
            [9.0, 2.0, 1.0, 0.5, 4.0],
            uniforms,
            capacity=3,
            indices=[0, 1, 2, 0, 2],
        ),
        draws("an item falls to 0", [9.0, 2.0, 0.0], uniforms, capacity=2, indices=[0, 1, 0]),
    ]
    distinct, ties = [0.5, 3.0, 1.0, 2.0, 0.25], [2.0, 1.0, 2.0, 0.5]
    ranks = [case(f"five items, α = {a:g}", priorities=distinct, alpha=a) for a in (0.7, 1.0, 0.0)]
    ranks += [
        case("ties: each has a rank of its own", priorities=ties, alpha=0.7, ties=[[0, 2]]),
        case("equal priorities: ranks 1 to 4 all the same", priorities=[1.0] * 4, alpha=1.0, ties=[[0, 1, 2, 3]]),
        case("a priority of 0 has the last rank, and can be drawn", priorities=[0.0, 2.0, 1.0], alpha=1.0),
        case("the size of priorities does not matter", priorities=[1e12, 1e-12, 1.0], alpha=0.7),
        case("one item", priorities=[3.0], alpha=0.7),
    ]
    ranked = [
        case("five items", priorities=distinct, alpha=0.7, uniforms=uniforms),
        case("α = 0: uniform", priorities=distinct, alpha=0.0, uniforms=uniforms),
        case("the start of each range", priorities=distinct, alpha=0.7, uniforms=[0.0] * 8),
        case("one draw at the end of the mass", priorities=distinct, alpha=0.7, uniforms=[1 - 2**-20]),
    ]
    shares = [0.4, 0.3, 0.2, 0.1]
    weights = [
        case("β = 0.4", probabilities=shares, size=4, beta=0.4),
        case("β = 1", probabilities=shares, size=4, beta=1.0),
        case("β = 0: all 1", probabilities=shares, size=4, beta=0.0),
        case("an item drawn twice, of a memory of a million", probabilities=[1e-6, 1e-6, 2e-3], size=10**6, beta=0.5),
        case("equal probabilities", probabilities=[0.125] * 3, size=8, beta=0.7),
        case("P of 1e-12", probabilities=[1e-12, 0.5], size=100, beta=0.4),
    ]
    of_memory = [
        case(
            "the least likely item is not in the batch",
            probabilities=[0.4, 0.3],
            least_probability=0.05,
            size=5,
            beta=0.4,
        ),
        case("it is in the batch", probabilities=[0.4, 0.1], least_probability=0.1, size=4, beta=1.0),
        case("β = 0: all 1", probabilities=[0.4, 0.3], least_probability=0.05, size=5, beta=0.0),
    ]
    return {
        "proportional_draws": proportional,
        "rank_probabilities": ranks,
        "rank_draws": ranked,
        "replay_weights": weights,
        "replay_weights_of_memory": of_memory,
        "ring_probabilities": [_ring(name, *each) for name, each in _RINGS.items()],
    }


# Capacity and events: an item's number where it is appended, or its number and new error.
_RINGS: dict[str, tuple[int, list[Any]]] = {
    "new items are equal": (4, [0, 1, 2]),
    "an update, and a new item with the largest priority so far": (4, [0, 1, (0, 4.0), 2]),
    "errors below 1 leave the largest priority at 1": (4, [0, 1, (0, 0.25), (1, 0.5), 2]),
    "the ring is exactly full": (3, [0, 1, 2, (0, 2.0)]),
    "the ring wraps: an overwritten item's priority is gone": (3, [0, 1, 2, (0, 9.0), (1, 0.5), (2, 0.25), 3]),
    "the largest priority outlives its item": (2, [0, 1, (0, 9.0), (1, 0.5), 2, 3, (2, 1.0)]),
    "the ring wraps twice": (3, [*range(8), (6, 0.25), (7, 3.0), 8]),
    "an error of 0 has priority ε": (3, [0, 1, (0, 0.0)]),
}


def _ring(name: str, capacity: int, events: list[Any]) -> Case:
    appended = [isinstance(event, int) for event in events]
    return case(
        name,
        capacity=capacity,
        alpha=0.6,
        epsilon=0.01,
        events=["append" if new else "update" for new in appended],
        items=[event if new else event[0] for event, new in zip(events, appended, strict=True)],
        errors=[0.0 if new else event[1] for event, new in zip(events, appended, strict=True)],
    )


def _vectors() -> dict[str, list[Case]]:
    """What a vector environment of one copy returns: episode e observes 10 e, 10 e + 1 and so on."""
    cases = []
    for name, ends in {
        "no end": "...",
        "a termination": "..T...",
        "a time limit: the value of the true last observation follows": "..X...",
        "terminated and truncated at once": "..B..",
        "episodes of one step": "TXTX",
        "the window ends with an episode": "...X",
    }.items():
        for autoreset in ("next_step", "same_step"):
            shown, final, over = [0.0], list[Any](), list[str]()
            for end in ends:
                step = shown[-1] + 1
                begin = float(10 * (shown[-1] // 10 + 1))
                over.append(end)
                if autoreset == "next_step":
                    shown.append(step)
                    final.append("NaN")
                    if end != ".":  # the next step begins an episode, whatever the action
                        shown.append(begin)
                        final.append("NaN")
                        over.append(".")
                else:
                    shown.append(step if end == "." else begin)
                    final.append("NaN" if end == "." else step)
            inputs = dict(autoreset=autoreset, observation=shown, final_observation=final)
            flags = dict(terminated=[e in "TB" for e in over], truncated=[e in "XB" for e in over])
            cases.append(case(f"{name}, {autoreset}", **inputs, **flags))
    return {"vector_rows": cases}
