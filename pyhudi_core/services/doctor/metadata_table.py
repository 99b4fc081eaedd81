"""Examine whether a metadata table that the properties list is there. What it says about files is not compared here, and nothing is claimed."""

from __future__ import annotations

from pyhudi_core.services.doctor.examination import Examination
from pyhudi_core.services.doctor.kinds import Area, Kind
from pyhudi_core.transaction.metadata_removal import FOLDER

_AREA = Area.METADATA_TABLE


def examine(exam: Examination) -> None:
    """Listed and there, listed and gone, or there and unlisted."""
    if exam.config is None:
        return
    listed = (*exam.config.metadata_partitions, *exam.config.metadata_partitions_inflight)
    folder = exam.folder(_AREA, FOLDER)
    there = {path.rpartition("/")[2] for path in folder.folders}
    exam.saw(_AREA, f"{len(listed)} partitions listed, {len(there - {'.hoodie'})} there")
    if not listed:
        if there:
            exam.add(Kind.METADATA_TABLE_UNLISTED, "There is a metadata table that the properties do not list", FOLDER)
        return
    if ".hoodie" not in there:
        exam.add(
            Kind.METADATA_TABLE_MISSING,
            f"The properties list the metadata table ({', '.join(listed)}), and it is not there",
            FOLDER,
        )
        return
    for name in exam.config.metadata_partitions:
        if name not in there:
            exam.add(
                Kind.METADATA_TABLE_MISSING,
                f"The properties list the metadata table's partition {name!r}, and it is not there",
                FOLDER,
            )
    exam.not_examined(_AREA, "Whether the metadata table says the same as commits and listing was not examined", FOLDER)
