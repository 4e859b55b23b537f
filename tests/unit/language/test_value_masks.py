"""Values of secrets are hidden in what comes back and is kept, in each form (SPEC section 14)."""

import base64
import html
import json
import quopri
import re
import shlex
from collections.abc import Callable
from unicodedata import normalize
from urllib.parse import quote, quote_plus, unquote

import msgspec

from scheduler_service.domain.records import (
    AttemptEnded,
    DeliveryRecord,
    DeliveryTry,
    Exchange,
    Noted,
    StepEnded,
)
from scheduler_service.domain.wire import Answer, AtSend, Fault, FaultKind
from scheduler_service.language.value_masks import LEAST_PREFIX, SecretMask, escaped_anyhow, forms_of
from scheduler_service.security.history_masking import Masking
from scheduler_service.security.secrets import MOST_FORMER, GivenSecrets, SecretMasks
from tests.rows import each_row

PLAIN = "t0p-Secret_of.the.shop"
NASTY = 'a/b "c"\\d+é&=%{}'


ENCODE_URI_COMPONENT, ENCODE_URI, GO_SEGMENT = "!'()*", "!#$&'()*+,/:;=?@", "$&+:=@"
"""What they leave as it is, besides letters, digits and `-._~`."""


def as_dotnet(text: str) -> str:
    """The content of a string as System.Text.Json writes it."""
    return "".join(
        "\\\\" if one == "\\" else f"\\u{ord(one):04X}" if one in "\"&'+<>`" or ord(one) > 126 else one
        for one in text
    )


def as_gson(text: str) -> str:
    """The content of a string as Gson writes it, which escapes what HTML might read."""
    written = json.dumps(text, ensure_ascii=False)[1:-1]
    return "".join(f"\\u{ord(one):04x}" if one in "<>&='" else one for one in written)


def as_template(text: str, further: dict[str, str]) -> str:
    """A text in a page of a language of templates, which escapes these, too."""
    escaped = html.escape(text).replace("&#x27;", "&#39;").replace("&quot;", further.get('"', "&quot;"))
    return escaped.translate(str.maketrans({one: by for one, by in further.items() if one != '"'}))


@each_row("value", [PLAIN, NASTY, "four", "aB3/x+Y9==", "it's <q\"(é)~!*`", "ключ/к+ларцу"])
@each_row(
    "write",
    [
        str,
        lambda value: f"Bearer {value}",
        lambda value: json.dumps({"a": [value]}),
        lambda value: json.dumps({"a": [value]}, ensure_ascii=False),
        lambda value: json.dumps({"data": json.dumps({"a": value}, ensure_ascii=False)}),
        lambda value: json.dumps({"a": value}).replace("/", "\\/"),
        lambda value: f"http://t/?k={quote(value, safe='')}&l=1",
        lambda value: f"http://t/?k={quote(value)}",
        lambda value: f"k={quote_plus(value)}",
        lambda value: f"k={quote(value, safe='').lower() if value.islower() else quote(value, safe='')}",
        lambda value: f"next={quote(quote(value, safe=''), safe='')}",
        lambda value: f"k={quote(value, safe=ENCODE_URI_COMPONENT)}",
        lambda value: f"k={quote(value, safe=ENCODE_URI)}",
        lambda value: f"/{quote(value, safe=GO_SEGMENT)}/",
        lambda value: json.dumps({"a": value}).replace("\\u00e9", "\\u00E9"),
        lambda value: f'{{"a":"{as_dotnet(value)}"}}',
        lambda value: f"<p>{html.escape(value, quote=False)}</p>",
        lambda value: f"<p>{html.escape(value)}</p>",
        lambda value: f"<p>{html.escape(value).replace('&#x27;', '&#39;').replace('&quot;', '&#34;')}</p>",
        lambda value: html.escape(value).encode("ascii", "xmlcharrefreplace").decode(),
        lambda value: as_template(value, {"+": "&#43;", '"': "&#34;"}),
        lambda value: as_template(value, {"`": "&#x60;", "=": "&#x3D;"}),
        lambda value: as_template(value, {"`": "&#x60;", "=": "&#x3D;", "/": "&#x2F;"}),
        lambda value: normalize("NFD", value),
        lambda value: json.dumps({"a": normalize("NFD", value)}),
        lambda value: f'{{"a":"{as_gson(value)}"}}',
        lambda value: "".join(f"\\u{ord(one):04x}" for one in value),
        lambda value: "".join(f"%{byte:02X}" for byte in value.encode()),
        lambda value: quote(value, safe="*").replace("~", "%7E").replace("%3D", "="),
        lambda value: html.escape(value).replace("&#x27;", "&#039;"),
        lambda value: html.escape(value).replace("&#x27;", "&apos;").replace("=", "&#61;"),
        lambda value: "".join(f"&#x{ord(one):X};" for one in value),
        lambda value: json.dumps({"a": html.escape(value).replace("&", "\\u0026")}).replace("\\\\u", "\\u"),
        lambda value: json.dumps(json.dumps(json.dumps(value))),
        lambda value: value.encode().hex(),
        lambda value: value.encode().hex(":"),
        lambda value: value.encode().hex(" ").upper(),
        lambda value: value.encode().hex("-"),
        lambda value: "".join(f"\\x{byte:02x}" for byte in value.encode()),
        lambda value: "".join(f"\\{byte:03o}" for byte in value.encode()),
        lambda value: "".join(f"\\U{ord(one):08x}" for one in value),
        lambda value: "".join(f"\\u{{{ord(one):x}}}" for one in value),
        lambda value: "".join(f"%u{ord(one):04X}" for one in value),
        lambda value: "".join(f"={byte:02X}" for byte in value.encode()),
        lambda value: quote("".join(f"&#{ord(one)};" for one in value), safe=""),
        lambda value: value.replace('"', '""'),
        lambda value: value.replace("'", "''"),
        lambda value: shlex.quote(f"'{value}"),
        lambda value: shlex.quote(json.dumps(f"'{value}")),
        lambda value: json.dumps(value.replace("'", "'\\''")),
        lambda value: json.dumps(value).replace('"', '""'),
        lambda value: value.encode().hex().upper(),
        lambda value: value.encode().decode("latin-1"),
        lambda value: json.dumps({"a": value.encode().decode("latin-1")}),
    ],
)
def test_each_form_is_hidden(value: str, write: Callable[[str], str]) -> None:
    """As it is, escaped, encoded, and encoded twice."""
    mask = SecretMask([value])
    text = write(value)
    assert mask.finds(text.encode())
    hidden = mask.text(text)
    assert value not in hidden
    assert "***" in hidden
    assert mask.body(text.encode()) == hidden.encode()


@each_row("before", ["", "u", "us", "user:", "somebody:"])
@each_row("behind", ["", "x", "xy", "xyz"])
def test_base64_hides_it_at_each_place(before: str, behind: str) -> None:
    """A user and a password, say: what comes before and behind moves it by parts of a character."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode(f"{before}{NASTY}{behind}".encode())
        hidden = SecretMask([NASTY]).body(b"Basic " + text + b"\n")
        assert b"***" in hidden
        assert len(hidden) < len(text) + 7 - len(NASTY) // 2


@each_row("before", ["x" * count for count in range(77)])
def test_base64_in_lines_hides_it_wherever_a_line_ends(before: str) -> None:
    """As mail and certificates have it, also in a JSON string."""
    mask = SecretMask([NASTY])
    text = base64.encodebytes(f"{before}{NASTY}and much that comes behind it".encode()).decode()
    for said in (text, text.replace("\n", "\r\n"), json.dumps({"said": text})):
        assert mask.finds(said.encode())
        assert "***" in (hidden := mask.text(said))
        assert not mask.finds(hidden.encode())
    assert mask.text(before * 2 + "\n" + before) == before * 2 + "\n" + before


@each_row(
    "write",
    [
        lambda text: text.replace("/", "\\/"),
        lambda text: text.replace("+", "\\u002B"),
        lambda text: text.replace("+", "&#43;"),
        lambda text: text.replace("/", "&#x2F;").replace("=", "&#x3D;"),
        lambda text: quote(text, safe="").replace("%2B", "%2b").replace("%2F", "%2f"),
    ],
)
def test_base64_is_hidden_as_it_is_written_in_json_pages_and_urls(write: Callable[[str], str]) -> None:
    """PHP escapes `/`, .NET and pages of Go `+`: what a target shows of its headers has both."""
    for value in ("~~~???>>>secret", "ключ/к+ларцу"):
        for before in ("", "u", "us", "user:"):
            text = base64.b64encode(f"{before}{value}".encode()).decode()
            hidden = SecretMask([value]).text(f"Basic {write(text)}")
            assert "***" in hidden
            assert len(hidden) <= len("Basic dXNlcjp***A&#x3D;&#x3D;")


def test_bytes_of_an_older_page_and_names_of_hosts_are_hidden() -> None:
    """In Latin-1, as they are or in a URL; a host in an error has small letters alone."""
    mask = SecretMask(["Müller&Söhne", "HostSecret.0", "two\nlines", " around\t", "\ufeffmark", "  12 "])
    assert mask.body("<Müller&Söhne>".encode("latin-1")) == b"<***>"
    assert mask.text("k=M%FCller%26S%F6hne") == "k=***"
    assert mask.text("hostsecret.0.test has no address") == "***.test has no address"
    assert mask.text("two\r\nlines") == "***"
    assert mask.text("X-S: around, mark") == "X-S: ***, ***"
    assert mask.text("12") == "12", "too short to be looked for"
    assert SecretMask(["Production"]).text("production") == "production", "a word"


@each_row(
    ("value", "body", "hidden"),
    [
        ("1234", b'{"id": 91234, "pin": "1234", "ok": [1.5, {"1234": 1234.5}], "no": 12}',
         b'{"id":"***","pin":"***","ok":[1.5,{"***":"***"}],"no":12}'),
        ("true", b'{"ok": true, "said": "true"}', b'{"ok":true,"said":"***"}'),
        ("1234", b"code 91234 and {1234}", b"code 9*** and {***}"),
        ("1234", b"91234", b"9***"),
        ("1234", b'{"pin": "1234"}', b'{"pin": "***"}'),
        ("1234", b'{"cut": 1234, "of', b'{"cut": ***, "of'),
    ],
)  # fmt: skip
def test_json_stays_json_where_a_number_is_a_secret(value: str, body: bytes, hidden: bytes) -> None:
    """A later step and `successWhen` read what is left of it."""
    assert SecretMask([value, PLAIN]).body(body) == hidden


def test_an_outcome_has_none() -> None:
    """In the address after a redirect, in headers, in the body, in the words of a fault."""
    mask = SecretMask([PLAIN])
    answer = Answer(
        302,
        (("location", f"http://t/?k={PLAIN}"),),
        f'{{"k":"{PLAIN}"}}'.encode(),
        url=f"http://t/?k={PLAIN}",
    )
    hidden = mask.outcome(answer)
    assert PLAIN not in repr(hidden)
    assert (hidden.status, hidden.body) == (302, b'{"k":"***"}')
    fault = mask.outcome(Fault(FaultKind.CONNECT, f"http://t/?k={PLAIN} refused"))
    assert fault == Fault(FaultKind.CONNECT, "http://t/?k=*** refused")


def test_a_body_that_was_cut_ends_with_no_begin_of_a_value() -> None:
    """The limit of a response may lie within it."""
    mask = SecretMask([PLAIN])
    for size in range(4, len(PLAIN)):
        answer = Answer(200, (), b"x " + PLAIN[:size].encode(), truncated=True)
        assert mask.outcome(answer) == msgspec.structs.replace(answer, body=b"x ***")
    short, again = Answer(200, (), b"t0p", truncated=True), Answer(200, (), b"aaab-aaab-aaa", truncated=True)
    assert mask.outcome(short) == short
    assert SecretMask(["aaab-aaac"]).outcome(again) == msgspec.structs.replace(again, body=b"aaab-***")


def of_each(write: Callable[[str], str]) -> Callable[[str], str]:
    """Writes each character so."""
    return lambda value: "".join(map(write, value))


def of_mail(value: str) -> str:
    """As quoted-printable, behind so much that a line ends within it."""
    return quopri.encodestring(b"x" * 60 + value.encode(), quotetabs=True).decode()[60:]


def read_through(text: str) -> str:
    """What a reader sees who takes every escape for one."""
    text = re.sub(r"\\+x([0-9a-f]{2})", r"=\1", text)
    text = quopri.decodestring(text.encode()).decode(errors="replace")
    for _ in range(4):
        text = re.sub(r"\\+u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text)
        text = re.sub(r"\\+(.)", r"\1", html.unescape(unquote(text)))
    return text


@each_row(
    "write",
    [
        str,
        of_each(lambda one: f"%{ord(one):02x}"),
        lambda value: quote(quote(value, safe=""), safe=""),
        of_each(lambda one: f"\\u{ord(one):04X}"),
        of_each(lambda one: f"&#{ord(one)};"),
        of_each(lambda one: f"&#x{ord(one):X};"),
        lambda value: quote(of_each(lambda one: f"&#{ord(one)};")(value), safe=""),
        lambda value: json.dumps(json.dumps(value))[3:-3],
        html.escape,
        lambda value: html.escape(value).replace("&", "\\u0026"),
        lambda value: "".join(
            f"%{ord(one):02X}" if at % 2 else f"&#{ord(one)};" for at, one in enumerate(value)
        ),
        of_each(lambda one: f"={ord(one):02X}"),
        of_each(lambda one: f"\\x{ord(one):02x}"),
        of_mail,
        lambda value: json.dumps(value.replace("'", "'\\''"))[1:-1],
        lambda value: json.dumps(value.replace("'", "'\"'\"'"))[1:-1],
        lambda value: json.dumps(value)[1:-1].replace('"', '""'),
    ],
)
def test_a_body_that_was_cut_within_an_escaped_value_shows_no_more_of_it(write: Callable[[str], str]) -> None:
    """However it is escaped, also within an escape: at most as many characters as are looked for."""
    value = "t0p-S\"ec/ret+&<=k>ey'9"
    mask, said = SecretMask([value]), write(value)
    assert mask.body(f"said: {said}".encode()) == b"said: ***"
    for size in range(len(said)):
        cut = mask.outcome(Answer(200, (), f"said: {said[:size]}".encode(), truncated=True))
        assert isinstance(cut, Answer)
        left = read_through(cut.body.decode()).removeprefix("said: ").replace("***", "")
        assert not left.startswith(value[: LEAST_PREFIX + 1]), (said[:size], cut.body)


def test_a_body_that_was_cut_within_lines_of_base64_shows_no_more_of_it() -> None:
    """What comes before it in those lines is hidden as well."""
    text = base64.encodebytes(b"x" * 50 + PLAIN.encode()).decode()
    at = text.index(base64.b64encode(PLAIN.encode()[1:16]).decode()[:8])
    for size in range(at + 4, len(text)):
        cut = SecretMask([PLAIN]).outcome(Answer(200, (), text[:size].encode(), truncated=True))
        assert isinstance(cut, Answer)
        assert cut.body.endswith(b"***"), (text[:size], cut.body)
        assert len(cut.body) <= at + 3


@each_row("end", [b"\n", b"\r\n"])
def test_soft_line_breaks_within_each_other_are_joined_once(end: bytes) -> None:
    """A body of them, as no mail has it, passes, and a value behind them is hidden."""
    nested, mask = b"=" * 20_000 + end * 20_000, SecretMask([PLAIN])
    for truncated in (False, True):
        plain = Answer(200, (), nested, truncated=truncated)
        assert mask.outcome(plain) == plain
        told = msgspec.structs.replace(plain, body=nested + PLAIN.encode())
        assert PLAIN not in repr(mask.outcome(told))


def test_what_secrets_cost_is_bounded() -> None:
    """Quotes add few forms of one; many that are looked for at a cut leave RE2 room to learn."""
    assert len(forms_of("""it's "q" toke9""")) <= len(forms_of("its ;q; toke9")) + 16
    many = [f"{number:040}" for number in range(50)]
    assert escaped_anyhow(many, is_cut=True).programsize < 120_000
    cut = SecretMask(many).outcome(Answer(200, (), b"\\u0030" * 38 + b"49", truncated=True))
    assert cut == Answer(200, (), b"***", truncated=True)


def masks(values: dict[str, dict[str, tuple[str, ...]]], **environments: dict[str, str]) -> SecretMasks:
    return SecretMasks(sources=[GivenSecrets(values)], environments=environments, read_clock=lambda: 0.0)


def test_each_tenant_has_its_own() -> None:
    """Else one could find out by guesses what another has."""
    known = masks({"default": {"A": (PLAIN,)}, "team": {"A": ("of-the-team",)}})
    own, other = known.of_tenant("default"), known.of_tenant("team")
    assert own is not None
    assert other is not None
    assert own.text(f"{PLAIN} of-the-team") == "*** of-the-team"
    assert other.text(f"{PLAIN} of-the-team") == f"{PLAIN} ***"
    assert known.of_tenant("third") is None
    assert known.of_tenant("default") is own


def test_a_value_that_was_replaced_stays_hidden() -> None:
    """A target may answer late with what it was sent; new ones are known at once where they are sent."""
    values = {"default": {"A": ("before-it",)}}
    known, source = masks(values), GivenSecrets(values)
    at_send = AtSend("default", "mark", ("A",))
    assert known.of_request(at_send, source.find).text("before-it") == "***"
    values["default"]["A"] = ("newest-one", "before-it")
    assert known.of_request(at_send, source.find).text("newest-one before-it") == "*** ***"
    values["default"]["A"] = ("only-this",)
    assert known.of_request(at_send, source.find).text("only-this") == "***"
    mask = known.of_tenant("default")
    assert mask is not None
    assert mask.text("before-it newest-one only-this") == "*** *** ***"


def test_a_value_that_a_source_has_is_never_forgotten() -> None:
    """However many there are; of former ones the newest are, and the mask stays while nothing changes."""
    seconds = [0.0]
    own = [f"valid-{number:05}" for number in range(MOST_FORMER + 100)]
    values = {"default": {"A": tuple(own)}}
    known = SecretMasks(sources=[GivenSecrets(values)], environments={}, read_clock=lambda: seconds[0])
    mask = known.of_tenant("default")
    assert mask is not None
    assert mask.text(" ".join(own)) == " ".join(["***"] * len(own))
    seconds[0] = 2.0
    assert known.of_tenant("default") is mask
    values["default"]["A"] = ("the-only-one",)
    seconds[0] = 4.0
    later = known.of_tenant("default")
    assert later is not None
    assert later.text(" ".join(own)) == " ".join([*own[:100], *["***"] * MOST_FORMER])
    assert later.text("the-only-one") == "***"


def test_values_of_the_environment_whose_names_speak() -> None:
    """Those of each tenant; others are shown, and so is what is too short."""
    default = {"API_KEY": "k3y-of-env", "REGION": "eu-north", "PIN_TOKEN": "abc"}
    known = masks({}, default=default, team={"API_KEY": "k3y-of-team"})
    mask, other = known.of_tenant("default"), known.of_tenant("team")
    assert mask is not None
    assert other is not None
    assert mask.text("k3y-of-env eu-north abc k3y-of-team") == "*** eu-north abc k3y-of-team"
    assert other.text("k3y-of-env k3y-of-team") == "k3y-of-env ***"
    assert known.of_tenant("third") is None


def exchange(**changes: object) -> Exchange:
    return msgspec.structs.replace(Exchange("POST", "http://t/", status=200), **changes)


def test_records_of_the_history_have_none() -> None:
    """In no field that has something of a target; their ids and times stay."""
    masking = Masking(secrets=masks({"default": {"A": (PLAIN,)}}))
    step = StepEnded(
        1,
        1,
        0,
        5,
        exchange(
            url=f"http://t/?k={PLAIN}",
            request_headers=(("a", PLAIN),),
            request_body=PLAIN.encode(),
            response_headers=(("b", PLAIN),),
            response_body=f"{html.escape(PLAIN)} {PLAIN}".encode(),
        ),
    )
    delivery = DeliveryRecord(
        "d-1", 1, 1, "succeed", f"http://t/{PLAIN}", "failed", tries=(DeliveryTry(1, None, f"at {PLAIN}"),)
    )
    end = AttemptEnded(1, 1, 5, "500", None, f"the target said {PLAIN}")
    found = masking.redact_all((step, delivery, end))
    assert PLAIN not in repr(found)
    assert found[1].delivery_id == "d-1"  # type: ignore[attr-defined]
    assert masking.redact_all((step,), tenant="team") == (step,)


def test_a_value_of_which_a_part_is_hidden_anyway_is_hidden_whole() -> None:
    """A URL with a user, say: where that is hidden first, the rest of the secret would be shown."""
    value = "postgres://shop:PA:SS@db.intern/shop?password=abc"
    masking = Masking(secrets=masks({"default": {"A": (value,)}}), members=["pin"])
    said = exchange(
        url=f"http://t/?to={value}",
        request_headers=(("dsn", value),),
        request_body=json.dumps({"pin": 1, "to": value}).encode(),
        response_headers=(("location", value),),
        response_body=b"x" * 5_000 + value.encode(),
        fault=f"at {value}",
    )
    delivery = DeliveryRecord("d-1", 1, 1, "succeed", value, "failed", tries=(DeliveryTry(1, None, value),))
    end = AttemptEnded(1, 1, 5, "500", None, f"said {value}")
    found = repr(masking.redact_all((StepEnded(1, 1, 0, 5, said), delivery, end, Noted(1, 5, "note", value))))
    assert [part for part in ("PA:SS", "db.intern", "abc") if part in found] == []


def test_what_is_escaped_in_a_way_of_its_own_is_hidden_whole() -> None:
    """Nothing else is; of values that are many or long, the known forms are."""
    mask = SecretMask([PLAIN, "key=="])
    assert mask.text("a%20b &amp; \\n key\\u003d= c") == "a%20b &amp; \\n *** c"
    for write in (as_gson, lambda value: "".join(f"%{byte:02X}" for byte in value.encode())):
        said = f"said {write('key==')}, and more".encode()
        for limit in range(len(said)):
            kept = SecretMask(["key=="]).hide_at(said, limit)
            assert len(kept) == len(said)
            begins_at, ends_at = 5, 5 + len(write("key=="))
            is_within = begins_at < limit < ends_at
            assert (kept == said) is not is_within
    digests = "\n".join(f"{number:064x}" for number in range(5))
    assert SecretMask([PLAIN]).text(f"{digests}\n{PLAIN}\n{digests}") == f"{digests}\n***\n{digests}"
    rotated = SecretMask([f"{number:032}" for number in range(200)] + ["newest=="])
    assert rotated.text("newest\\u003d=") == "***"
    many = SecretMask([f"{number:04}={'x' * 90}" for number in range(60)] + ["short=="])
    assert many.text("short\\u003d=") == "***"
    assert many.text(quote(f"0007={'x' * 90}")) == "***"
    assert SecretMask(["x" * 2_000 + '"']).body(json.dumps("x" * 2_000 + '"').encode()) == b'"***"'


def test_many_secrets_are_found_as_few_are() -> None:
    """By the begins of their forms, also where those overlap, are in the text without the rest, or abound."""
    values = [f"the-secret-{number:04}" for number in range(300)]
    mask = SecretMask([*values, NASTY, "abcd", "bcde", "e-secret"])
    few = SecretMask([values[7], NASTY, "abcd", "bcde", "e-secret"])
    begins = "the-secret-" * 500
    for text in (
        "",
        values[7],
        f"x{values[7]}the-secret-",
        f"{begins}{values[7]}",
        NASTY,
        quote(NASTY),
        "xabcdey",
    ):
        assert mask.text(text) == few.text(text), text
        assert mask.finds(text.encode()) == few.finds(text.encode())
        padded = b"x" * 10 + text.encode() + b"y" * 10
        for limit in range(len(padded) - 25, len(padded)):
            assert mask.hide_at(padded, max(limit, 0)) == few.hide_at(padded, max(limit, 0))


def kept_of(body: bytes, body_bytes: int, *members: str) -> bytes | None:
    """What the history keeps of a response."""
    masking = Masking(secrets=masks({"default": {"A": (PLAIN,)}}), body_bytes=body_bytes, members=members)
    (found,) = masking.redact_all((StepEnded(1, 1, 0, 5, exchange(response_body=body)),))
    assert isinstance(found, StepEnded)
    return found.exchange.response_body


def test_a_record_is_hidden_at_its_cut() -> None:
    """The history keeps the begin of a body, which may end within a value; also where members are masked."""
    for before in range(12):
        assert kept_of(b"x" * before + PLAIN.encode() + b"y", 12) == b"x" * before + b"*" * (12 - before)
    body = json.dumps({"pin": 1, "a": PLAIN}).encode()
    assert kept_of(body, 24, "pin") == b'{"pin":"***","a":"******'
    # Who may send parameters could find out a value by guesses of its begin, which are cut behind it
    for guess in (b"t0p-S", b"t0p-X"):
        assert kept_of(b"1234567" + guess + b"and more", 12) == b"1234567" + guess


@each_row(
    "write",
    [
        lambda value: value.replace("\n", "\n    "),
        lambda value: value.replace("\n", " "),
        lambda value: value.replace("\n", "\r\n\t"),
        lambda value: "bad line: " + value.split("\n")[1],
        lambda value: json.dumps([{"line": line} for line in value.split("\n")]),
        lambda value: value.split("\n")[2].strip().encode().hex("-").upper(),
    ],
)
def test_each_long_line_is_hidden_by_itself(write: Callable[[str], str]) -> None:
    """Of a PEM key, or a file of an account; its frame and short lines are no secrets."""
    begin, end = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----\n"
    lines = [begin, "AAAA/CANARY+LINE1xyz", "  BBBB/CANARY+LINE2xyz  ", "short"]
    mask = SecretMask(["\n".join((*lines, end))])
    hidden = mask.text(write("\n".join(lines)))
    assert "***" in hidden
    assert "CANARY" not in hidden
    assert mask.text(f"{begin} short") == f"{begin} short"
