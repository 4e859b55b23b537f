"""Examines what a service needs before it starts or while it runs; changes nothing (`punctual doctor`)."""
