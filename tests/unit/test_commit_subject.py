"""The check of commit messages that pre-commit runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tools.commit_subject import main, problems

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "message",
    [
        "cuda: read the timer before the first record",
        "gpu tool: name what no kit has\n\nA machine without network needs it at once.\n",
        "tests/gpu: map memory on hardware\n# Please enter the commit message\n#\n",
        "docs: address a reader\n# ------------------------ >8 ------------------------\n+ not part of the message",
        "Merge branch 'x' into y",
        'Revert "cuda: Something That Was Wrong."',
        "fixup! whatever",
        "config: " + "x" * 64,
    ],
)
def test_a_good_message_passes(message: str) -> None:
    assert problems(message) == []


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("", "is not 'area: what it does now'"),
        ("Add the daemon", "is not 'area: what it does now'"),
        ("CUDA engine: read cubins", "is not 'area: what it does now'"),
        ("cuda:read cubins", "is not 'area: what it does now'"),
        ("cuda: ", "is not 'area: what it does now'"),
        ("config: " + "x" * 65, "the subject has 73 characters; allowed: 72"),
        ("cuda: read cubins.", "ends with a full stop"),
        ("cuda: added cubins", "'added' is no imperative"),
        ("cuda: Fixes a leak", "'Fixes' is no imperative"),
        ("cuda: moving the timer", "'moving' is no imperative"),
        ("cuda: dropped a stream", "'dropped' is no imperative"),
        ("cuda: read cubins\nand more", "an empty line must follow the subject"),
    ],
)
def test_a_bad_message_is_named(message: str, problem: str) -> None:
    (found,) = problems(message)
    assert problem in found


def test_the_hook_reads_the_file_that_git_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "COMMIT_EDITMSG"
    path.write_text("cuda: read cubins\n")
    assert main([str(path)]) == 0
    path.write_text("Changes.\n")
    assert main([str(path)]) == 1
    assert "commit message: the subject is not" in capsys.readouterr().err


def test_the_hook_runs_for_messages_and_the_others_do_not() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    hooks = {hook["id"]: hook for repo in config["repos"] for hook in repo["hooks"]}
    assert config["default_install_hook_types"] == ["pre-commit", "commit-msg"]
    assert config["default_stages"] == ["pre-commit"]
    assert hooks["commit-subject"]["stages"] == ["commit-msg"]
    assert hooks["commit-subject"]["entry"].endswith("-m tools.commit_subject")
