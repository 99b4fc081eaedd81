"""The provider's description for Airflow: its modules, its connection type and the form of a connection. Imports neither Airflow nor a table."""

from __future__ import annotations

from typing import Any

CONNECTION_TYPE = "hudi"
_NAME = "Apache Hudi"


def _text(label: str, description: str, **schema: object) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": ["string", "null"], **schema}}


def _modules(*names: str) -> dict[str, Any]:
    return {"integration-name": _NAME, "python-modules": [f"pyhudi_airflow.{name}" for name in names]}


def get_provider_info() -> dict[str, Any]:
    """Return the description of the provider. Airflow calls this function through the entry point ``apache_airflow_provider``."""
    return {
        "package-name": "pyhudi",
        "name": _NAME,
        "description": "Apache Hudi tables: writes, table services, and assets that follow the timeline.",
        "integrations": [
            {
                "integration-name": _NAME,
                "external-doc-url": "https://hudi.apache.org/",
                "tags": ["apache"],
            }
        ],
        "hooks": [_modules("hook")],
        "operators": [_modules("consumer_operator", "service_operators", "write_operators")],
        "sensors": [_modules("sensors")],
        "triggers": [_modules("sensors", "triggers")],
        "asset-uris": [{"schemes": ["hudi"], "handler": "pyhudi_airflow.assets.hudi_uri"}],
        "task-decorators": [{"name": "hudi", "class-name": "pyhudi_airflow.write_operators.hudi_task"}],
        "connection-types": [
            {
                "connection-type": CONNECTION_TYPE,
                "hook-class-name": "pyhudi_airflow.hook.HudiHook",
                "hook-name": _NAME,
                "ui-field-behaviour": form(),
                "conn-fields": fields(),
            }
        ],
    }


def form() -> dict[str, Any]:
    """Return the standard fields of a connection that the form shows, each with its name in the form."""
    return {
        "hidden-fields": ["port", "schema", "extra"],
        "relabeling": {"host": "Warehouse", "login": "S3 access key id", "password": "S3 secret access key"},
        "placeholders": {"host": "/lake or s3://bucket/lake", "login": "empty: what boto3 finds"},
    }


def fields() -> dict[str, Any]:
    """Return the fields in the extra of a connection. Both may have secrets, so the form does not show them."""
    return {
        "storage_options": _text(
            "Storage options", 'JSON, for example {"endpoint_url": "https://minio:9000"}', format="password"
        ),
        "options": _text(
            "Hudi options",
            'JSON for every table, for example {"hoodie.write.lock.provider": "..."}',
            format="password",
        ),
    }
