"""The tables that 0.1.0 made, without a version.

Nodes of 0.1.0 refuse tables whose row `format` in `marks` has a value above 1. A migration after which they
must not go on has to write it.
"""

revision = "0001"
down_revision = None
