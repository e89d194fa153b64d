"""What Ray raises instead of a worker's outcomes, told apart: a death is borne, a mistake ends the run."""

from prunecast.errors import PrunecastError
from prunecast.sweep.failures import in_one_line


def is_death(failure: Exception) -> bool:
    """Whether a worker, its node or what it had to say is lost, so that another worker can go on."""
    from ray import exceptions as errors

    lost = (errors.WorkerCrashedError, errors.OutOfMemoryError, errors.ObjectLostError)
    return isinstance(failure, lost) or of_a_node(failure)


def of_a_node(failure: Exception) -> bool:
    """Whether it was the whole node."""
    from ray.exceptions import NodeDiedError

    return isinstance(failure, NodeDiedError)


def mistake(failure: Exception) -> PrunecastError:
    """The sentence about anything else: a worker's own, a node set up otherwise, or a cluster that is gone."""
    from ray.exceptions import LocalRayletDiedError, RayTaskError

    cause = failure.cause if isinstance(failure, RayTaskError) else failure
    words = in_one_line(cause).split(" traceback: ")[0][:300].rstrip(".")
    if isinstance(cause, PrunecastError):
        return type(cause)(*cause.args)
    if isinstance(failure, LocalRayletDiedError):
        return PrunecastError(
            "Ray's node on this machine has died, and with it the way to the cluster. Nothing finished is "
            "lost: start the node again, and run the same command again."
        )
    if isinstance(failure, RayTaskError):
        remedy = "install the same prunecast, torch and ray on every node"
        return PrunecastError(f"A worker could not begin: {words}; {remedy}.")
    return PrunecastError(
        f"Ray gave up: {words}. Nothing finished is lost; see to the cluster, and run the same command again."
    )
