"""What is known of a URL's host when the job is created (SPEC sections 4, 9)."""

import pytest

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.language.expression import Names
from scheduler_service.language.template import compile_url
from scheduler_service.language.urls import check_authority
from tests.rows import each_row

NAMES = Names(environment=frozenset({"BASE", "HOST", "PORT"}))


def check(url: str) -> None:
    """As a step's url."""
    check_authority(compile_url(url, names=NAMES))


@each_row(
    ("url", "said", "column"),
    [
        ("http://h:0/", "port '0'", 9),
        ("http://h:65536/", "port '65536'", 9),
        ("https://h:99999", "port '99999'", 10),
        ("http://h:80a/x", "port '80a'", 9),
        ("http://h:+80/", "port '+80'", 9),
        ("http://h:٨٠/", "port '٨٠'", 9),
        ("http://h:000080/", "port '000080'", 9),
        ("http://[::1]:x/", "port 'x'", 13),
        ("HTTP://h:http/${a}", "port 'http'", 9),
        ("http://h:x?q=${a}", "port 'x'", 9),
        ("http://:80/", "no host", 7),
        ("http://:/", "no host", 7),
        ("http://[]:80/", "no host", 7),
        ("http:///x", "no host", 5),
        ("http://?x", "no host", 5),
        ("http://::1/", "not HOST or HOST:PORT", 7),
        ("http://[::1/", "not HOST or HOST:PORT", 7),
        ("http://[::1]x/", "not HOST or HOST:PORT", 7),
        ("http://user@h/", "user information", 5),
        ("http://user:secret@h:80/", "user information", 5),
        ("https://@h/", "user information", 6),
        ("service://user@name/", "user information", 8),
        ("service://{foo}/x", "use {serviceName} or {serviceGateway}", 10),
        ("service://{servicename}/x", "is not a placeholder", 10),
        ("service://{serviceName}x/x", "is not a placeholder", 10),
        ("service://name}/x", "is not a placeholder", 10),
        ("service://{}", "is not a placeholder", 10),
        ("service://name:80/x", "a service has no port", 14),
        ("SERVICE://name:/x", "a service has no port", 14),
        ("service://{serviceName}:80/", "a service has no port", 23),
        ("service:///x", "no host", 8),
        ("service://é/x", "'é' is not a service name", 10),
        ("service://%C3%A9/x", "'é' is not a service name", 10),
        ("service://-name/x?a=${a}", "'-name' is not a service name", 10),
        ("service://127.0.0.1/x", "'127.0.0.1' is not a service name", 10),
        ("service://../x", "'..' is not a service name", 10),
        (f"service://{'n' * 129}/x", "is not a service name", 10),
    ],
)
def test_a_host_that_nothing_reaches_is_refused(url: str, said: str, column: int) -> None:
    """Everything that can be known is checked when the job is created, with its place (SPEC section 4)."""
    with pytest.raises(ExpressionError) as caught:
        check(url)
    assert said in caught.value.message
    assert caught.value.column == column


@each_row(
    "url",
    [
        "http://h/",
        "http://h",
        "http://h:1/",
        "http://h:65535/",
        "http://h:/",
        "http://h:00080/",
        "http://[::1]/",
        "http://[::1]:80/${a}",
        "http://h/a:b@c",
        "http://h?a=b:c@d",
        "http://h#:x",
        "service:/x:80",
        "service://Mixed.Case-1/x",
        "service://_x/",
        "service://name/x:80/{foo}",
        "service://{serviceName}/x",
        "service://{serviceGateway}/name/x",
        "queue://work",
        "system://clean",
        "http://${HOST}/",
        "http://${HOST}:99999/",
        "http://h:${PORT}/",
        "http://h:9${PORT}/x",
        "service://${HOST}:80/",
        "${BASE}:99999/",
        "${schedulingFeedbackUrl}",
        "${next}",
    ],
)
def test_what_may_be_reached_passes(url: str) -> None:
    """What a variable says is judged when it is sent; paths and queries are free."""
    check(url)
