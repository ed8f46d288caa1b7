"""A job as the kit's processes know engines: a command, names and time limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from tickproof.conformance.engines import toml_model
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.jobs.declaration import Job


class JobSpec(EngineSpec):
    """The engine.toml that the kit writes for a job: a command that speaks Kafka."""

    table: ClassVar[str] = "job"

    def __init__(self, job: Job, values: Mapping[str, str]) -> None:
        argv = job.command(values)
        limit_s = job.table.startup_timeout_s
        tables: dict[str, Any] = {
            "engine": {
                "name": job.name,
                "version": "-",
                "language": "-",
                "argv": argv,
                "prepare": job.table.prepare,
                "transports": ["kafka"],
                "startup_timeout_s": limit_s,
                "recovery_timeout_s": limit_s,
            },
            "kafka": {
                "session_timeout_ms": "none",
                "transaction_timeout_ms": "none",
                "roles": job.table.roles and job.table.roles.expressions(),
            },
            "apps": {},
            "claims": {
                "state": job.claims.state,
                "delivery": job.claims.delivery,
                "survives": [],
                "rescale": "none",
            },
        }
        super().__init__(job.path, toml_model.EngineFile.model_validate(tables))
