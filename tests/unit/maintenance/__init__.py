"""Tests of the examination by `punctual doctor`."""
