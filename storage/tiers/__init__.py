"""Where rows of features lie, fast to slow, and how they come into a batch: memory, map or file, behind a cache."""

from gnnhet.storage.tiers.cache import Cache
from gnnhet.storage.tiers.device import DeviceCache
from gnnhet.storage.tiers.files import READS, FileReader
from gnnhet.storage.tiers.reader import ArrayReader, Reader, open_reader

__all__ = ["READS", "ArrayReader", "Cache", "DeviceCache", "FileReader", "Reader", "open_reader"]
