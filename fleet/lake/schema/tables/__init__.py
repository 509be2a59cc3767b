"""Schemas of the lake's tables: every column with its type, unit and meaning."""

from __future__ import annotations

from typing import Final

from fleet.lake.schema.tables import base, models, placing, report, requests, sensing

ALL: Final = (
    *base.TABLES,
    *requests.TABLES,
    *placing.TABLES,
    *sensing.TABLES,
    *report.TABLES,
    *models.TABLES,
)
