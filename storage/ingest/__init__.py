"""Graphs built out of core: edges parted into buckets on disk, then placed bucket by bucket."""

from gnnhet.storage.ingest.job import ingest
from gnnhet.storage.ingest.options import Options, options_of
from gnnhet.storage.ingest.sources import open_source

__all__ = ["Options", "ingest", "open_source", "options_of"]
