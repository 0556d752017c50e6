"""Folders too large for one machine: pictures spread over the workers of a Ray cluster.

Only names and rows of the manifest travel through Ray; each worker reads and writes pictures itself, wherever fsspec
can reach, with the network loaded once. Names of results follow from names of inputs and writes are atomic, so a
picture that is done twice, because its worker died, is still there once.
"""

from enlcn.cluster.options import ClusterOptions
from enlcn.cluster.plan import plan_cluster
from enlcn.cluster.run import run_cluster

__all__ = ["ClusterOptions", "plan_cluster", "run_cluster"]
