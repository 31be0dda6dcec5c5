"""``python -m control_center.cli``"""

from __future__ import annotations

import sys

from control_center.cli import main

sys.exit(main())
