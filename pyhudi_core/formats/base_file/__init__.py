"""Base files: one version of the rows of a file group (specification, "Base Files").

`BaseFileReader` reads Parquet, ORC and HFile; `BaseFileWriter` writes Parquet. Other packages import these names from here.
"""

from pyhudi_core.formats.base_file.footer import BaseFileFooter
from pyhudi_core.formats.base_file.parquet_statistics import ColumnRange
from pyhudi_core.formats.base_file.reader import BaseFileFormat, BaseFileReader, is_parquet, read_footer
from pyhudi_core.formats.base_file.writer import BaseFileStats, BaseFileWriter

__all__ = [
    "BaseFileFooter",
    "BaseFileFormat",
    "BaseFileReader",
    "BaseFileStats",
    "BaseFileWriter",
    "ColumnRange",
    "is_parquet",
    "read_footer",
]
