"""The doctor: a read-only examination of a complete table, with a report as its result."""

from pyhudi_core.doctor.checkup import CheckOptions, check
from pyhudi_core.doctor.examination import Limits, Progress
from pyhudi_core.doctor.incident import Incident, RecordedFile, record
from pyhudi_core.doctor.kinds import Area, FindingKind, Severity
from pyhudi_core.doctor.report import AreaSummary, CheckReport, Finding

__all__ = [
    "Area",
    "AreaSummary",
    "CheckOptions",
    "CheckReport",
    "Finding",
    "FindingKind",
    "Incident",
    "Limits",
    "Progress",
    "RecordedFile",
    "Severity",
    "check",
    "record",
]
