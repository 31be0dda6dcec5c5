"""Programs of a guest that call the toolkit's libraries; the tests run them beside a daemon (tests/protocol)."""
