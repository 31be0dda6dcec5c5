"""Alert rules for Prometheus: Prometheus takes them, each has a test there, and their series and thresholds are ours."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from control_center import health
from control_center.exposition import METRICS
from tests.fakes.guest import REPOSITORY

RULES = REPOSITORY / "docs" / "prometheus" / "alerts.yaml"
TESTS = REPOSITORY / "tests" / "prometheus" / "alerts_test.yaml"


def rules() -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def promtool(*arguments: str | Path) -> str:
    """Runs promtool, and returns what it prints; it must succeed."""
    if shutil.which("promtool") is None:
        pytest.skip("no promtool, which checks and tests alert rules: apt install prometheus")
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_prometheus_takes_the_rules() -> None:
    assert f"{len(rules())} rules found" in promtool("check", "rules", RULES)


def test_rules_fire_when_they_should_and_only_then() -> None:
    assert "SUCCESS" in promtool("test", "rules", TESTS)


def test_every_rule_is_tested_and_says_what_to_do() -> None:
    tests = yaml.safe_load(TESTS.read_text())["tests"]
    fired = {case["alertname"] for test in tests for case in test.get("alert_rule_test", ()) if case["exp_alerts"]}
    assert fired == set(rules())
    assert all(rule["annotations"].keys() == {"summary", "remedy"} for rule in rules().values())


def test_rules_use_series_that_exist() -> None:
    used = {name for rule in rules().values() for name in re.findall(r"\bvgc_\w+", rule["expr"])}
    assert used <= set(METRICS)


@pytest.mark.parametrize(
    ("alert", "threshold"),
    [
        ("VgcRecorderDiskLow", health.LOW_DISK_BYTES),
        ("VgcRecorderLate", health.LATE_NS / 1e9),
        ("VgcHostClockWrong", health.MAX_SKEW_NS / 1e9),
        ("VgcDaemonHeld", health.MAX_DELAY_NS / 1e9),
    ],
)
def test_thresholds_are_those_of_vgcctl(alert: str, threshold: float) -> None:
    assert float(rules()[alert]["expr"].split()[-1]) == threshold
