"""Table services as jobs, schedules, a sensor and views."""
