"""Contexts of qos 1 that lie in a store of their own: how rows name them, and the stores."""
