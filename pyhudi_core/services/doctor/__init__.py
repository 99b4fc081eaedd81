"""The doctor: a read-only examination of a whole table, as a value that prints well."""

from pyhudi_core.services.doctor.checkup import CheckOptions, check
from pyhudi_core.services.doctor.examination import Limits, Progress
from pyhudi_core.services.doctor.incident import Incident, RecordedFile, record
from pyhudi_core.services.doctor.kinds import Area, Kind, Severity
from pyhudi_core.services.doctor.report import AreaSummary, CheckReport, Finding

__all__ = [
    "Area",
    "AreaSummary",
    "CheckOptions",
    "CheckReport",
    "Finding",
    "Incident",
    "Kind",
    "Limits",
    "Progress",
    "RecordedFile",
    "Severity",
    "check",
    "record",
]
