"""Compute the parts of a check on the workers of a dask scheduler.

A task names a part by its number. The worker reads the block of the trace itself and sends back a tally for each claim,
a few kilobytes. Tallies are merged in the order of the parts, so the results are those of one process.
"""

from collections.abc import Iterator
from functools import partial

from validation.claims.check import Part, PartsOf, Work
from validation.claims.order import Order, compute_part
from validation.errors import UserError, first_line
from validation.models.devices import out_of_memory
from validation.workers import connected, in_order, refuse_other_workers


def on_scheduler(address: str) -> PartsOf:
    """Return what :func:`.check_trace` takes as ``parts`` to compute on the workers of a scheduler."""
    return partial(parts_of_cluster, address=address)


def parts_of_cluster(work: Work, claims: tuple[str, ...], first: int, address: str) -> Iterator[Part]:
    """Yield the parts from number ``first`` on, in order, computed by the workers of a scheduler."""
    if first >= len(work):
        return
    order = Order.of(work, claims)
    with connected(address) as client:
        threads = refuse_other_workers(client, address)
        yield from in_order(client, compute, ((order, number) for number in range(first, len(work))), threads)


def compute(order: Order, number: int) -> Part:
    """Return one part, on a worker; each failure is one sentence, without a stack that may be too deep to be sent."""
    try:
        return compute_part(order, number)
    except UserError:
        raise
    except Exception as error:
        said = out_of_memory(error)
        reason = f"ran out of memory: {said}" if said else f"failed with {type(error).__name__} ({first_line(error)})"
    raise UserError(f"Part {number} {reason}; to see where, run the check without --scheduler.")
