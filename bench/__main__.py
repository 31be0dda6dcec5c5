"""``python -m bench [NAME ...] [--quick]``: measures rows, prints the table, writes ``bench/out``."""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

from bench import rows
from bench.lab import Lab
from bench.provenance import Provenance, provenance, save
from bench.registry import ROWS, select
from bench.results import SkipRow, markdown, table, write_json
from bench.runner import run_rows

OUT = Path(__file__).resolve().parent / "out"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Benchmarks beside their baselines.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="figures to measure, globs allowed (default: all)")
    parser.add_argument(
        "--quick", action="store_true", help="fewer samples: a quarter of an hour for all on two cores, noisier"
    )
    parser.add_argument("--list", action="store_true", help="list the figures and exit")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--threads", type=int, default=None, help="threads of the compute rows (default: all CPUs)")
    parser.add_argument("--driver", type=Path, default=None, help="libcuda of the CUDA rows (default: the system's)")
    parser.add_argument(
        "--nvml", type=Path, default=None, help="libnvidia-ml, which reads clocks (default: the system's)"
    )
    parser.add_argument("--smoke", action="store_true", help="CUDA rows on small sizes, to show that they run")
    parser.add_argument("--limit", type=float, default=math.inf, metavar="S", help="seconds after which no row begins")
    parser.add_argument(
        "--save", type=Path, default=None, help="also write the results to this file, with hardware and date"
    )
    parser.add_argument("--out", type=Path, default=OUT, help="folder of results.json (default: bench/out)")
    return parser


def _where_from(args: argparse.Namespace) -> Provenance | None:
    """Provenance of the figures, if they are to be saved.

    :raise SkipRow: they cannot be saved; raised before time is spent on measuring.
    """
    if args.save and args.smoke:
        raise SkipRow("the figures of --smoke mean nothing; leave one out")
    return provenance(args.driver) if args.save else None


def main(argv: list[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    args.driver = args.driver and args.driver.resolve()  # the daemon takes absolute paths only
    rows.load()
    try:
        chosen = select(ROWS, args.names)
    except ValueError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    if args.list:
        print("\n".join(name for known in chosen for name in known.names))
        return 0
    try:
        where_from = _where_from(args)
    except SkipRow as reason:
        print(f"bench: --save: {reason}", file=sys.stderr)
        return 2
    with Lab(quick=args.quick, threads=args.threads, driver=args.driver, nvml=args.nvml, smoke=args.smoke) as lab:
        until = time.monotonic() + args.limit
        results, skipped = run_rows(
            lab, chosen, args.names, lambda name: print(f"... {name}", file=sys.stderr, flush=True), until
        )
    print(markdown(results) if args.markdown else table(results, skipped))
    if args.smoke:
        print("--smoke: small sizes: figures and goals mean nothing")
    print(f"written: {write_json(args.out, results, skipped)}", file=sys.stderr)
    if where_from:
        print(f"written: {save(args.save, results, where_from)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
