"""Services, their instances and declared timers in SQL."""
