# SPDX-License-Identifier: Apache-2.0
"""The tokens of an emitted text with their brackets. No preprocessor; comments are skipped."""
import re
from dataclasses import dataclass

TOKEN = re.compile(r"""
    (?P<skip>\s+|//[^\n]*|/\*.*?\*/|\#[^\n]*)
  | (?P<float>\d+\.\d*(?:e[+-]?\d+)?f?|\d+e[+-]?\d+f?)
  | (?P<int>\d+)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<op>::|->|\+\+|--|[-+*/%&|^=!<>]=|&&|\|\||<<|>>|.)
""", re.VERBOSE | re.DOTALL)


@dataclass
class Token:
    kind: str
    text: str
    start: int
    end: int
    match: int = -1  # of a bracket: the number of its partner
    inside: int = -1  # the number of the bracket around it


def tokenise(text):
    tokens, stack = [], []
    for match in TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "skip":
            continue
        token = Token(kind, match[0], match.start(), match.end(), inside=stack[-1] if stack else -1)
        if token.text in "([{" and kind == "op":
            stack.append(len(tokens))
        elif token.text in ")]}" and kind == "op" and stack:
            token.match = stack.pop()
            token.inside = stack[-1] if stack else -1
            tokens[token.match].match = len(tokens)
        tokens.append(token)
    return tokens
