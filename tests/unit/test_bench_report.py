"""The benchmark's framework: selection of rows, comparison, table and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import install as bench_install
from bench.lab import Lab
from bench.registry import ROWS, Outcome, Row, select
from bench.results import Goal, Result, Samples, Skipped, SkipRow, markdown, outcome, rows_of, table, write_json
from bench.rows import load
from bench.runner import run_rows
from bench.stats import alternate

FAST = Result("fast", 0.5, "us", "lower", 2.0, "a peer", Goal("value", "<", 1.0), 0.03)
SLOW = Result("slow", 3.0, "GB/s", "higher", 4.0, "memcpy", Goal("ratio", ">=", 0.95))
ALONE = Result("alone", 1234567.0, "1/s", "higher")


def _row(*names: str) -> Row:
    return Row(names, lambda _lab: (Result(name, 1.0, "us", "lower") for name in names))


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab(quick=True, threads=1) as made:
        yield made


# ---- selection ---------------------------------------------------------------------------------


def test_no_pattern_selects_every_row() -> None:
    rows = [_row("a"), _row("b", "c")]
    assert select(rows, []) == rows


def test_glob_selects_rows_that_make_a_matching_figure() -> None:
    rows = [_row("copy_in"), _row("copy_out"), _row("launch")]
    assert select(rows, ["copy_*"]) == rows[:2]


def test_pattern_without_a_match_lists_all_figures() -> None:
    with pytest.raises(ValueError, match=r"no benchmark is called 'x\*'; there are: a, b"):
        select([_row("a", "b")], ["x*"])


def test_only_the_wanted_figures_of_a_row_are_reported(lab: Lab) -> None:
    results, skipped = run_rows(lab, [_row("p50", "p99")], ["p99"], lambda _text: None)
    assert [result.name for result in results] == ["p99"]
    assert skipped == []


def test_every_requested_figure_has_a_row() -> None:
    load()
    asked = """
        null_polled_us_p50 null_polled_us_p99 null_sleeping_us_p50 eventfd_ping_pong_us_p50 null_pipelined_per_s
        peer_null_us_p50 peer_null_pipelined_per_s copy_in_gbps copy_out_gbps launch_us_p50 saxpy matmul reduce nbody
        histogram compile_cold_ms compile_cached_ms idle_cpu_percent worker_rss_mib daemon_rss_mib guest_null_us_p50
        cuda_null_launch_us_p50 cuda_pipelined_launches_per_s cuda_copy_in_256m_gbps cuda_copy_out_256m_gbps
        cuda_saxpy_64m_per_s cuda_matmul_64m_per_s cuda_reduce_64m_per_s cuda_stencil_64m_per_s cuda_nbody_128k_per_s
        cuda_compile_cached_ms cuda_8_vms_busy_per_s cuda_4_vms_busy_per_s quota_pe_partition_error_percent
        quota_pe_turns_error_percent cuda_idle_cpu_percent cuda_saxpy_256m_per_s nap_20us_us_p50 launch_back_to_back_us
        bfs nw gaussian lud hotspot lavamd scan transpose spmv transformer_block transformer_block_bf16 radix_sort
        bfs_beside_pocl software_gpu_geomean software_gpu_geomean_beside_pocl
    """
    assert set(asked.split()) <= {name for known in ROWS for name in known.names}


# ---- rows that do not run ----------------------------------------------------------------------


def test_skipped_row_gives_its_reason_for_each_figure(lab: Lab) -> None:
    def measure(_lab: Lab) -> Iterator[Outcome]:
        yield Result("first", 1.0, "us", "lower")
        raise SkipRow("no such hardware")

    results, skipped = run_rows(lab, [Row(("first", "second"), measure)], [], lambda _text: None)
    assert [result.name for result in results] == ["first"]
    assert skipped == [Skipped("second", "no such hardware")]


def test_failing_row_is_reported_and_the_next_one_runs(lab: Lab) -> None:
    def measure(_lab: Lab) -> Iterator[Outcome]:
        raise OSError("socket gone")

    results, skipped = run_rows(lab, [Row(("broken",), measure), _row("fine")], [], lambda _text: None)
    assert skipped == [Skipped("broken", "failed: OSError: socket gone")]
    assert [result.name for result in results] == ["fine"]


def test_figure_that_could_not_be_measured_becomes_a_reason() -> None:
    assert outcome("row", SkipRow("not installed"), "us", "lower") == Skipped("row", "not installed")


def test_missing_baseline_leaves_the_result_without_ratio() -> None:
    made = outcome("row", 2.0, "us", "lower", SkipRow("not installed"), against="peer")
    assert isinstance(made, Result)
    assert (made.baseline, made.ratio, made.against) == (None, None, "no peer: not installed")


# ---- comparison --------------------------------------------------------------------------------


def test_subjects_take_turns_after_one_unmeasured_call_each() -> None:
    calls: list[str] = []

    def subject(name: str, value: float) -> float:
        calls.append(name)
        return value

    a, b = alternate(2, lambda: subject("a", 1.0), lambda: subject("b", 2.0))
    assert calls == ["a", "b"] * 3
    assert (a, b) == (Samples((1.0, 1.0)), Samples((2.0, 2.0)))


def test_subject_that_cannot_run_does_not_stop_the_others() -> None:
    def broken() -> float:
        raise SkipRow("asleep")

    first, second, third = alternate(1, broken, SkipRow("absent"), lambda: 4.0)
    assert isinstance(first, SkipRow)
    assert isinstance(second, SkipRow)
    assert third == Samples((4.0,))


def test_noise_is_half_the_middle_spread_over_the_median() -> None:
    assert Samples((1.0, 9.0, 10.0, 11.0, 30.0)).noise == pytest.approx(0.1)
    assert Samples((5.0,)).noise == 0.0


# ---- report ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("result", "verdict"), [(FAST, "met"), (SLOW, "MISSED"), (ALONE, "")])
def test_verdict_holds_the_goal_against_value_or_ratio(result: Result, verdict: str) -> None:
    assert result.verdict == verdict


def test_table_has_a_line_per_result_and_names_what_was_skipped() -> None:
    lines = table([FAST, SLOW, ALONE], [Skipped("gone", "no device"), Skipped("too", "no device")]).splitlines()
    assert lines[2].split() == ["fast", "0.5", "us", "2", "0.25", "3%", "<", "1", "met", "a", "peer"]
    assert lines[3].split() == ["slow", "3", "GB/s", "4", "0.75", "-", "ratio", ">=", "0.95", "MISSED", "memcpy"]
    assert lines[4].split() == ["alone", "1,234,567", "1/s", "-", "-", "-"]
    assert lines[5] == "skipped (no device): gone, too"


def test_size_to_quote_is_marked_in_table_and_json() -> None:
    quoted = outcome("copy_256m", 2.0, "GB/s", "higher", against="memcpy", quoted=True)
    assert isinstance(quoted, Result)
    assert table([quoted]).splitlines()[2].endswith("memcpy; size to quote")
    assert rows_of([quoted, FAST])[0]["quoted"] is True
    assert "quoted" not in rows_of([FAST])[0]


def test_markdown_has_a_row_per_result() -> None:
    lines = markdown([FAST]).splitlines()
    assert len(lines) == 3
    assert lines[2] == "| fast | 0.5 | us | 2 | 0.25 | 3% | < 1 | met | a peer |"


def test_json_is_a_list_with_exactly_the_promised_keys(tmp_path: Path) -> None:
    path = write_json(tmp_path / "out", [FAST, ALONE], [Skipped("gone", "no device")])
    fast, alone = json.loads(path.read_text())
    assert fast == {"name": "fast", "value": 0.5, "unit": "us", "baseline": 2.0, "ratio": 0.25, "better": "lower"}
    assert (alone["baseline"], alone["ratio"]) == (None, None)
    assert json.loads((path.parent / "skipped.json").read_text()) == [{"name": "gone", "reason": "no device"}]


# ---- programs of others ------------------------------------------------------------------------


def test_only_missing_programs_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(bench_install, "apt_get", lambda *arguments: asked.append(arguments))
    there = bench_install.Peer("a", lambda: True, ("package-a",))
    missing = bench_install.Peer("b", lambda: False, ("package-b",))
    bench_install.install((there, missing))
    assert [arguments[-1] for arguments in asked] == ["package-b"]


def test_failed_installation_does_not_stop_the_benchmark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_arguments: str) -> None:
        raise SystemExit(1)

    monkeypatch.setattr(bench_install, "apt_get", refuse)
    bench_install.install((bench_install.Peer("b", lambda: False, ("package-b",)),))
    assert "b cannot be installed" in capsys.readouterr().err
