"""Calendars of working days in SQL."""
