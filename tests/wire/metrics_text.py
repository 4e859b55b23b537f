"""Reads the answer to a scrape with the parsers of prometheus-client."""

from collections.abc import Iterable
from typing import NamedTuple

from prometheus_client import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


class Scraped(NamedTuple):
    """The metrics of one answer."""

    families: dict[str, Metric]

    def value(self, name: str, **labels: str) -> float | None:
        """The value of the sample of this name with exactly these labels, of process 0 where none is named.

        None: there is no such sample.
        """
        found = [
            sample.value
            for family in self.families.values()
            for sample in family.samples
            if sample.name == name and ({"process": "0"} | labels) == dict(sample.labels)
        ]
        assert len(found) <= 1, (name, labels)
        return found[0] if found else None

    def labels(self, name: str) -> list[dict[str, str]]:
        """The labels of every sample of this name."""
        return [
            dict(one.labels)
            for family in self.families.values()
            for one in family.samples
            if one.name == name
        ]

    @property
    def own(self) -> dict[str, Metric]:
        """The metrics of Punctual alone, by their names as documented."""
        return {
            f"{name}_total" if family.type == "counter" else name: family
            for name, family in self.families.items()
            if name.startswith("punctual_")
        }


def read_text(text: str) -> Scraped:
    """Of the text format. Raises ValueError where it is not that."""
    return _collect(text_string_to_metric_families(text))


def read_openmetrics(text: str) -> Scraped:
    """Of OpenMetrics, whose parser is the strict one. Raises ValueError where it is not that."""
    return _collect(openmetrics.text_string_to_metric_families(text))


def _collect(families: Iterable[Metric]) -> Scraped:
    found = list(families)
    assert len({family.name for family in found}) == len(found), "a family stands twice"
    return Scraped({family.name: family for family in found})
