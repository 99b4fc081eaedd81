"""HFile version 3, as in Hudi's metadata table: a sorted file of keys and values in blocks, with an index."""

from pyhudi_core.formats.hfile.data_block import Entries
from pyhudi_core.formats.hfile.reader import HFileReader
from pyhudi_core.formats.hfile.writer import HFileWriter

__all__ = ["Entries", "HFileReader", "HFileWriter"]
