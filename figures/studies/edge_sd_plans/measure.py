"""How much longer the batches of edge-sd's Algorithm 1 take than the best ones, in 120 draws of its Table II."""

from figures.studies.kit import SHELF, given, store
from hlmtheory.batching import plan
from hlmtheory.serving import Task
from validation.claims.scenarios.cell import Load, draw_users

LABELS = 1_000


def draw(seed: int, run: int, load: Load) -> dict[str, float | bool]:
    """Plan the tasks of a run by Algorithm 1, its misprints mended, and by the search, each under (24b)."""
    tasks = [Task(int(prompt), load.longest_output) for prompt in draw_users(seed, run, load).inputs]
    dp = plan(tasks, load.service, "dp", memory_rule="each")
    best = plan(tasks, load.service, "pareto", memory_rule="each", max_labels=LABELS)
    loss = round(100.0 * (dp.latency / best.latency - 1.0), 4)
    return {"users": load.users, "pair": load.pair, "run": run, "loss_percent": loss, "complete": bool(best.complete)}


def main() -> None:
    chosen = given(__doc__, out=str(SHELF / "edge_sd_plans" / "dp_gap.json"), runs=10, seed=1, users=(10, 30, 60, 90))
    loads = [Load(users=int(users), pair=pair) for users in chosen.users for pair in range(3)]
    draws = []
    for load in loads:
        draws += [draw(chosen.seed, run, load) for run in range(chosen.runs)]
        print(draws[-1], flush=True)
    largest = max(one["loss_percent"] for one in draws)
    about = {"draws": len(draws), "complete": sum(one["complete"] for one in draws), "largest_loss_percent": largest}
    store(SHELF.parents[1] / chosen.out, {"seed": chosen.seed, **about, "each": draws}, indent=None)


if __name__ == "__main__":
    main()
