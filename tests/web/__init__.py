"""The control centre's page in a headless browser, against the real server and simulated daemons."""
