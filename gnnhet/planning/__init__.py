"""Plans: which device does what share of the work, and why."""

from gnnhet.planning.make import plan
from gnnhet.planning.plan import Plan

__all__ = ["Plan", "plan"]
