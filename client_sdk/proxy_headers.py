"""Headers by which proxies say that they pass a request on: it may come from anybody."""

OF_PROXIES = frozenset(
    [
        "forwarded",
        "via",
        "x-real-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "true-client-ip",
        "fastly-client-ip",
        "fly-client-ip",
        "x-envoy-external-address",
        "x-original-forwarded-for",
    ]
)
"""Lower case; others begin with `PREFIXES_OF_PROXIES`."""
PREFIXES_OF_PROXIES = "x-forwarded-", "cf-", "x-amzn-trace"
