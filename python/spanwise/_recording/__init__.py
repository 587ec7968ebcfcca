"""Recording: functions, blocks and sessions of this program, and other commands."""
