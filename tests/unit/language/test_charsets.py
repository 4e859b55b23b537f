"""SPEC section 4.3: a response is text in the charset that its Content-Type names."""

from scheduler_service.language.charsets import UTF_8, as_utf8, charset_of
from scheduler_service.language.json_values import NOT_TEXT, parse_response
from tests.rows import each_row


@each_row(
    ("kind", "charset", "text"),
    [
        ("text/plain;charset=GBK", "gbk", "订单"),
        ('text/plain; Charset="gb2312"', "gb2312", "仓库"),
        ("text/plain; charset=gb2312", "gbk", "朱镕基"),  # beyond GB 2312, and sent under its name
        ("text/plain; charset=GB18030", "gb18030", "𠀀"),
        ("text/plain; charset=Big5", "big5", "倉庫"),
        ("text/plain; charset=Shift_JIS", "shift_jis", "倉庫"),
        ("text/plain; charset=windows-31j", "cp932", "①"),
        ("text/plain; charset=ISO-2022-JP", "iso2022_jp", "倉庫"),
        ("text/plain; charset=EUC-KR", "euc_kr", "창고"),
        ("text/plain; charset=iso-8859-1", "latin-1", "é"),
        ("text/plain; charset=windows-1252", "cp1252", "€"),
        ("text/plain; charset=windows-874", "cp874", "คลัง"),
        ("text/plain; charset=koi8-r", "koi8_r", "склад"),
        ("text/plain; charset=utf-16", "utf-16", "订单"),
        ("text/plain; charset=utf-16", "utf-16-be", "订单"),  # without a mark: RFC 2781, section 4.3
        ("text/plain; charset=utf-16le", "utf-16-le", "a"),
        ("text/plain; charset=utf-32", "utf-32", "订单"),
        ("text/plain; charset=UTF-8", "utf-8-sig", "订单"),
        ("text/plain", "utf-8-sig", "订单"),
        ("text/plain; charset=us-ascii", "utf-8", "订单"),
        ('text/plain; title="a;charset=gbk"; charset=utf-8', "utf-8", "订单"),
        ('text/plain; charset="g\\bk"', "gbk", "订单"),
    ],
)
def test_a_text_in_its_charset(kind: str, charset: str, text: str) -> None:
    """By its registered names, quoted too; without its byte order mark."""
    assert parse_response(as_utf8(text.encode(charset), charset_of(kind))) == text


@each_row(
    ("kind", "charset"),
    [
        ("application/json; charset=gbk", "gbk"),
        ("application/json; charset=utf-16", "utf-16"),
        ("application/json; charset=utf-32", "utf-32"),
        ("application/json; charset=iso-2022-jp", "iso2022_jp"),
        ("text/html; charset=gbk", "utf-8"),
        ("text/html; charset=iso-8859-1", "utf-8"),
        ("application/json; charset=utf-16", "utf-8"),
    ],
)
def test_json_whatever_the_type_says(kind: str, charset: str) -> None:
    """Many servers name ISO-8859-1 by default, and send JSON in UTF-8."""
    body = '{"name": "倉庫", "n": [1]}'.encode(charset)
    assert parse_response(as_utf8(body, charset_of(kind))) == {"name": "倉庫", "n": [1]}


@each_row(
    ("kind", "charset", "text"),
    [
        ("text/plain; charset=ISO-8859-1", "utf-8", "倉庫 é"),
        ("text/html; charset=windows-1252", "utf-8", "€"),
        ("text/plain; charset=gbk", "utf-8", "€"),  # no text in GBK
        ("text/plain; charset=gbk", "utf-8-sig", "订单"),
        ("text/plain; charset=utf-8", "utf-16", "订单"),
        ("text/plain; charset=iso-8859-1", "utf-16", "订单"),
        ("text/plain", "utf-16", "订单"),
        ("text/plain; charset=x-unknown", "utf-32", "订单"),
        ("text/plain; charset=utf-16", "utf-8-sig", "订单"),
    ],
)
def test_a_charset_that_is_named_wrongly(kind: str, charset: str, text: str) -> None:
    """A byte order mark says more than a name, and so does UTF-8 where servers name a charset by default."""
    assert parse_response(as_utf8(text.encode(charset), charset_of(kind))) == text


def test_a_short_text_is_read_in_the_charset_that_it_names() -> None:
    """Also where its bytes happen to be UTF-8, as some pairs of GBK are."""
    body = "陋拢".encode("gbk")
    assert body.decode() != "陋拢"
    assert parse_response(as_utf8(body, "gbk")) == "陋拢"
    # Whatever is named: RFC 8259 lets a reader ignore it
    for charset in ("utf-8-sig", "utf-16", "utf-32"):
        assert parse_response(as_utf8('{"a": "é"}'.encode(charset), UTF_8)) == {"a": "é"}
    # A truncated body ends with its last whole character
    assert as_utf8("订单".encode("gbk")[:3], "gbk", truncated=True) == "订".encode()
    assert as_utf8("aé".encode()[:2], "latin_1", truncated=True) == b"a"


CODECS = ["rot13", "rot-13", "hex", "zlib", "bz2", "base64", "quopri", "uu", "idna", "punycode", "utf-7"]
CODECS += ["unicode_escape", "raw_unicode_escape", "undefined", "charmap", "mbcs", "oem", "aliases"]


@each_row("name", [*CODECS, "binary", "x-unknown", "../x", "", '""', "\xe9"])
def test_names_that_are_no_charset(name: str) -> None:
    """What Python calls a codec is not honoured: the bytes are read as where none is named."""
    assert charset_of(f"text/plain; charset={name}") == UTF_8


@each_row("name", ["gbk", "utf-16", "big5", "utf-8", "", "binary", "cp1252", "utf-32"])
def test_bytes_that_are_no_text(name: str) -> None:
    """They stay as they are, and are no text for a template."""
    body = b"\xff\xfe\x81\x8d\xff"
    assert as_utf8(body, charset_of(f"a/b; charset={name}")) == body
    assert parse_response(body) is NOT_TEXT
