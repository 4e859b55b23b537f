"""The library's parser of JSONPath, with names of every character that RFC 9535 allows.

The library's token for a name reads a character beyond U+10FF only in front, and refuses `$.作业`.
That token alone is replaced here; all else is read as the library reads it.
"""

import re
from re import Pattern

from jsonpath_rfc9535 import JSONPathEnvironment, JSONPathQuery, JSONPathSyntaxError
from jsonpath_rfc9535.lex import RE_PROPERTY, Lexer
from jsonpath_rfc9535.tokens import Token, TokenStream, TokenType

_FIRST = r"A-Za-z_\u0080-\uD7FF\uE000-\U0010FFFF"
MEMBER_NAME = re.compile(rf"[{_FIRST}][{_FIRST}0-9]*")
"""A name in its short form, as in `$.name` (RFC 9535 section 2.5.1.1)."""


class _NameLexer(Lexer):
    __slots__ = ()

    def accept_match(self, pattern: Pattern[str]) -> bool:
        return super().accept_match(MEMBER_NAME if pattern is RE_PROPERTY else pattern)


class NameEnvironment(JSONPathEnvironment):
    """The library's environment, which compiles with `MEMBER_NAME`."""

    def compile(self, query: str) -> JSONPathQuery:
        """The parsed query. Raises JSONPathError."""
        stream = TokenStream(_tokenize(query))
        return JSONPathQuery(env=self, segments=tuple(self.parser.parse(stream)))


def _tokenize(query: str) -> list[Token]:
    lexer = _NameLexer(query)
    lexer.run()
    if lexer.tokens and lexer.tokens[-1].type_ == TokenType.ERROR:
        raise JSONPathSyntaxError(lexer.tokens[-1].message, token=lexer.tokens[-1])
    if lexer.bracket_stack:
        bracket, index = lexer.bracket_stack[-1]
        message = f"unbalanced {'brackets' if bracket == '[' else 'parentheses'}"
        raise JSONPathSyntaxError(message, token=Token(TokenType.ERROR, bracket, index, query, message))
    return lexer.tokens
