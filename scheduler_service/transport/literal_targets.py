"""Judges URLs whose host is written out, before any request is made (SPEC section 9)."""

from scheduler_service.transport.addresses import read_url
from scheduler_service.transport.errors import RefusedTarget
from scheduler_service.transport.guard import EgressPolicy


def judge_literal(policy: EgressPolicy, url: str) -> str | None:
    """Why `policy` lets no request to the host of `url` through, or None. A name is not looked up."""
    try:
        site = read_url(url).site
    except RefusedTarget as error:
        sentence = str(error)
        return sentence[:1].lower() + sentence[1:].removesuffix(".")
    reason = policy.refuse_name(site.host)
    if reason is None and site.address is not None:
        reason = policy.refuse_address(site.host, site.address)
    return reason
