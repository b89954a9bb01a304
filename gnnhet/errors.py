"""Every error gnnhet raises on purpose.

    GnnhetError                    rule, what was got, remedy: one line
    +-- GraphError                 arrays that are not a graph
    +-- FormatError                a file or folder that cannot be read as what it should be
    |   +-- ChecksumError          bytes differ from the checksum stored beside them
    +-- SpecError                  a name or option nobody knows: dataset, device, model, config
    +-- SeedError                  seed ids outside the graph
    +-- MissingDependencyError     an optional package is not installed
    +-- PlanError                  work that does not fit the devices it was given
    +-- TrainingError              a run that cannot go on
        +-- RankError              a rank died or failed
        +-- WaitError              a wait passed its time-out

Messages name the rule, what was got, and the remedy. The CLI prints them as one line and exits 2.
"""


class GnnhetError(Exception):
    """Base of all errors raised on purpose."""


class GraphError(GnnhetError, ValueError):
    """Arrays break a rule of the graph."""


class FormatError(GnnhetError, ValueError):
    """A file or folder cannot be read as what it should be."""


class ChecksumError(FormatError):
    """Bytes on disk differ from the checksum stored beside them."""


class SpecError(GnnhetError, ValueError):
    """A dataset, device, model or option that does not exist or does not fit."""


class SeedError(GnnhetError, ValueError):
    """Seed ids that are not nodes of the graph."""


class MissingDependencyError(GnnhetError, ImportError):
    """An optional package is needed and absent."""


class PlanError(GnnhetError, ValueError):
    """Work that cannot be placed on the given devices."""


class TrainingError(GnnhetError, RuntimeError):
    """A run that cannot go on."""


class RankError(TrainingError):
    """A rank died or failed; the message says which and how to resume."""


class WaitError(TrainingError, TimeoutError):
    """A wait passed its time-out; the message says what it waited for."""
