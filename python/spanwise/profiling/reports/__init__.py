"""What was recorded, as reports, files, and live views."""
