"""Tokens of feedback URLs are found wherever a URL can stand."""

import html
import itertools
import json
from urllib.parse import quote

from scheduler_service.domain.token_masks import mask_tokens, mask_tokens_in
from tests.rows import each_row

TOKEN = "5f" * 32
URL = f"http://127.0.0.1:8000/jobs/a/feedback/7?token={TOKEN}"
PART = f"{URL}&shard=1"
FORMS = {
    "bare": URL,
    "of a part": PART,
    "after other parameters": f"http://h/f?a=1&token={TOKEN}",
    "in a path": f"http://h/hooks/{quote(URL, safe='')}/end",
    "in a bare query": f"http://h/hooks?{quote(URL, safe='')}",
    "in a query that keeps its signs": f"http://h/hooks?{URL}",
    "in a fragment": f"http://h/hooks#{quote(URL, safe='')}",
    "encoded twice": quote(quote(PART, safe=""), safe=""),
    "encoded five times": quote(quote(quote(quote(quote(URL, safe=""), safe=""), safe=""), safe=""), safe=""),
    "encoded in lower case": quote(URL, safe="").replace("%3D", "%3d").replace("%3F", "%3f"),
    "in JSON": json.dumps({"callback": PART}),
    "in JSON inside JSON": json.dumps(json.dumps({"callback": PART})),
    "in JSON with escapes": json.dumps({"callback": PART}).replace("=", "\\u003d").replace("?", "\\u003f"),
    "in HTML": html.escape(f'<a href="http://h/?a=1&token={TOKEN}">'),
    "in HTML with entities": f"?token&#x3D;{TOKEN}",
    "in a sentence": f"no answer from {URL}, tried 3 times",
}


@each_row("text", FORMS.values(), ids=FORMS)
def test_it_is_masked(text: str) -> None:
    """In a text and in a body; what is around it stays."""
    assert TOKEN not in mask_tokens(text)
    assert mask_tokens(text) == text.replace(TOKEN, "***")
    assert mask_tokens_in(text.encode()) == text.replace(TOKEN, "***").encode()


def test_of_a_key_the_id_stays() -> None:
    """In the answer of `POST /keys`, in a path, in a sentence, beside a token; what is shorter is no key."""
    key_id, secret = "0f" * 8, "aZ_-9" * 8 + "xyz"
    key = f"pk_{key_id}_{secret}"
    for text in (
        json.dumps({"key": key}),
        f"/keys/{key}/rotate",
        f"Bearer {key}",
        f"{URL}&by={key}, he",
    ):
        wanted = text.replace(secret, "***").replace(TOKEN, "***")
        assert (mask_tokens(text), mask_tokens_in(text.encode())) == (wanted, wanted.encode())
    assert mask_tokens(key[:-1]) == key[:-1]


@each_row("letters", list(itertools.product(*zip("token", "TOKEN", strict=True))))
def test_what_is_a_token_is_so_in_any_text(letters: tuple[str, ...]) -> None:
    """Whatever else is in the text: the quick look misses nothing that is masked."""
    text = f"?{''.join(letters)}={TOKEN}"
    assert (mask_tokens(text) == text) == (mask_tokens(f"oken {text}") == f"oken {text}")
    assert mask_tokens_in(text.encode()) == mask_tokens(text).encode()
