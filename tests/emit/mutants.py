# SPDX-License-Identifier: Apache-2.0
"""Enumerates the mutants of an emitted CUDA text: one small edit each, by rules over its tokens.

Kinds and their edits:
  sign      + and -, += and -= exchanged between floats, a minus dropped, fabsf dropped
  barrier   a barrier left out
  mask      a comparison moved by one (< to <=, == to !=), a comparison always true, `continue` left out
  index     in addresses, subscripts, thread maps and loop bounds: an operand plus 1, or its neighbour for it (row for
            first_row, lane for row, ...); a number plus 1; + and - exchanged; in thread maps / and % exchanged; a shuffle's
            mask doubled
  fma       c negated, the product left out, rounded twice
  rounding  left out, to the other 16-bit format, towards zero; where there was none, to bf16
  constant  a float number times 1.01; a 0 that is stored or that a sum begins with, replaced by 1
The parts that every kernel shares (the prelude), declarations of sizes, and variables that nothing reads are left alone.
"""
import bisect
import re
from dataclasses import dataclass

from cuda_tokens import tokenise

KINDS = ("sign", "barrier", "mask", "index", "fma", "rounding", "constant")

COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
#: What an index is taken for where both names are known.
NEIGHBOURS = {"row": "lane", "first_row": "row", "column": "lane", "lane": "column", "step_row": "lane"}
#: Fields that are integers: of a tile, of the arguments, of CUDA's built-in variables.
INTEGER_FIELDS = {"tile": ("batch", "token", "rows"), "where": ("batch", "token", "sequence"),
                  "threadIdx": ("x",), "blockIdx": ("x",),
                  "arguments": ("offset_bytes", "tokens", "heads", "sequences", "tiles", "segments")}
#: Functions whose arguments are addresses, indices and counts.
INDEX_CALLS = {"at", "row_of", "load4", "store4", "load_row", "store_row", "find_tile", "find_packed_tile", "find_surplus_tile",
               "staged_tile_before", "next_staged_tile", "write_first_tiles", "fetch_box", "copy_box", "expect_bytes",
               "tree_part", "sum_segments", "row_scan", "row_total", "Offsets"}
INTEGER_TYPES = ("int", "long", "unsigned")
#: Calls that order what threads and the copy engine do.
BARRIERS = ("block_barrier", "warp_barrier", "wait_for", "publish_arrivals")


@dataclass(frozen=True)
class Mutant:
    number: int
    kind: str
    start: int
    end: int
    replacement: str
    line_number: int
    edit: str  # the line without margin, with {before => after} in it

    def apply(self, text):
        return text[:self.start] + self.replacement + text[self.end:]


class Enumerator:
    def __init__(self, text):
        self.text = text
        self.tokens = tokenise(text)
        self.line_starts = [0] + [match.end() for match in re.finditer("\n", text)]
        self.mutants = []
        self.integers = self.integer_names()
        self.first = self.after_arguments()
        self.unread = self.unread_names()

    # ---- what tokens are ---------------------------------------------------------------------------------------
    def at(self, number, offset=0):
        number += offset
        return self.tokens[number].text if 0 <= number < len(self.tokens) else ""

    def integer_names(self):
        """Names declared as int or long long anywhere, and the function (outermost braces) of each declaration."""
        names = {}
        for i, token in enumerate(self.tokens):
            if token.text not in INTEGER_TYPES or self.at(i, -1) in ("long", "<"):
                continue
            j = i + (2 if token.text == "long" else 1)
            while j < len(self.tokens) and self.tokens[j].kind == "name":
                names.setdefault(self.at(j), set()).add(self.function_of(j))
                bracket = self.tokens[j].inside
                parameter = self.at(bracket) == "(" and self.at(bracket, -1) != "for"
                if self.at(j, 1) != "=" or parameter:
                    break
                j = self.expression_end(j + 2, {",", ";"})  # const int lane = ..., row = ...
                if self.at(j) != ",":
                    break
                j += 1
        return names

    def unread_names(self):
        """Integers that are only declared and cast to void; a loop's variable of the same name is another one."""
        uses = {name: 0 for name in self.integers}
        hidden = []  # (name, end) of loops that declare it
        for i, token in enumerate(self.tokens):
            hidden = [(name, end) for name, end in hidden if i <= end]
            if token.text == "for" and self.at(i, 2) in INTEGER_TYPES:
                name = self.at(i, 4 if self.at(i, 2) == "long" else 3)
                body = self.tokens[i + 1].match + 1
                hidden.append((name, self.tokens[body].match if self.at(body) == "{" else self.expression_end(body, {";"})))
            void = self.at(i, -2) == "void"
            if token.text in uses and not void and all(name != token.text for name, _ in hidden):
                uses[token.text] += 1
        return {name for name, count in uses.items() if count == 1}

    def function_of(self, number):
        while number >= 0 and self.tokens[number].inside >= 0:
            number = self.tokens[number].inside
        return number

    def expression_end(self, number, ends):
        while number < len(self.tokens) and self.at(number) not in ends:
            number = self.tokens[number].match if self.at(number) in ("(", "[", "{") else number
            if self.at(number) in (")", "]", "}") and self.tokens[number].match > number:
                break
            number += 1
        return number

    def after_arguments(self):
        for i, token in enumerate(self.tokens):
            if token.text == "struct" and self.at(i, 1) == "Arguments":
                return self.tokens[i + 2].match + 2
        return 0

    def around(self, number):
        """The open brackets around a token, innermost first, as (bracket, word before it)."""
        number = self.tokens[number].inside
        while number >= 0:
            word = self.at(number, -1)
            if word == ">":  # load4<aligned>(
                back = number - 1
                while back > 0 and self.at(back) != "<":
                    back -= 1
                word = self.at(back, -1)
            yield self.at(number), word
            number = self.tokens[number].inside

    def in_for_header(self, number):
        return any(bracket == "(" and word == "for" for bracket, word in self.around(number))

    def statement_start(self, number):
        inside = self.tokens[number].inside
        while number > 0:
            before = self.tokens[number - 1]
            outside = self.tokens[inside].inside if inside >= 0 else -1
            if before.text in (";", "{", "}") and before.inside in (inside, outside):
                break
            if number - 1 == inside:
                if self.at(inside) == "{":
                    break
                inside = self.tokens[inside].inside
            number -= 1
        return number

    def is_integer_statement(self, number):
        start = self.statement_start(number)
        words = [self.at(start, k) for k in range(4)]
        if words[0] == "const":
            words = words[1:]
        return words[0] in (*INTEGER_TYPES, "Tile") or words[0] == "float" and words[1] == "*"

    def in_index(self, number):
        if self.is_integer_statement(number):
            return True
        for bracket, word in self.around(number):
            if bracket == "[" or word in INDEX_CALLS:
                return True
            if bracket == "{" or bracket == "(" and word in ("if", "row_dot", "row_sum", "to_float", "to"):
                return False
        return False

    def is_template_bracket(self, number):
        token = self.tokens[number]
        return token.text in "<>" and not self.text[token.start - 1].isspace()

    def declared(self, number):
        """The variable that an integer statement sets at this place: const int A = ..., B = ...;"""
        start = self.statement_start(number)
        if not self.is_integer_statement(number) or self.in_for_header(number):
            return None
        depth = self.tokens[start].inside
        while number > start and not (self.at(number) == "=" and self.tokens[number].inside == depth):
            number -= 1
        return self.at(number, -1)

    def is_size(self, number):
        """The number of elements in a declaration: float x[8]; const float (&x)[8]."""
        bracket = self.tokens[number].inside
        if self.at(bracket) != "[":
            return False
        if self.at(bracket, -1) == ")":
            return self.at(self.tokens[bracket - 1].match, 1) == "&"
        return self.at(bracket, -2) in ("float", ">", *INTEGER_TYPES)  # > of Fixed<24> x[8]

    def operand(self, number):
        """An integer operand that begins here: (end, name), or None."""
        token = self.tokens[number]
        if token.kind != "name" or self.at(number, -1) in (".", "->"):
            return None
        fields = INTEGER_FIELDS.get(token.text)
        if fields and self.at(number, 1) == "." and self.at(number, 2) in fields:
            return number + 2, f"{token.text}.{self.at(number, 2)}"
        functions = self.integers.get(token.text, ())
        if self.function_of(number) in functions or self.parameter_of(number):
            return number, token.text
        return None

    def parameter_of(self, number):
        """Parameters stand before their function's braces; where a name is one, it is one everywhere in the text."""
        return any(function < 0 or self.at(function) != "{" for function in self.integers.get(self.at(number), ()))

    # ---- edits ---------------------------------------------------------------------------------------------------
    def add(self, kind, start, end, replacement):
        line = bisect.bisect_right(self.line_starts, start) - 1
        low = self.line_starts[line]
        high = self.text.find("\n", max(start, end - 1))
        rest = self.text[end:high]
        if kind != "barrier":  # whose comment alone tells it from others
            rest = re.sub(r"\s*//.*", "", rest, flags=re.DOTALL)
        edit = f"{self.text[low:start]}{{{self.text[start:end]} => {replacement}}}{rest}"
        self.mutants.append(Mutant(len(self.mutants) + 1, kind, start, end, replacement, line + 1,
                                   re.sub(r"\s+", " ", edit).strip()))

    def replace(self, kind, first, last, replacement):
        self.add(kind, self.tokens[first].start, self.tokens[last].end, replacement)

    def source(self, first, last):
        return self.text[self.tokens[first].start:self.tokens[last].end]

    def enumerate(self):
        for number, token in enumerate(self.tokens):
            line = self.text[self.line_starts[bisect.bisect_right(self.line_starts, token.start) - 1]:token.end].lstrip()
            if number < self.first:
                if line.startswith("constexpr float"):
                    self.constants(number)
                continue
            if re.match(r"KD_(ENTRY|SHARED|KERNEL\([^)]*$)|\(void\)|template|static_assert", line):
                continue
            if self.unread and self.declared(number) in self.unread:
                continue
            self.constants(number)
            self.signs(number)
            self.barriers(number)
            self.masks(number)
            self.indices(number)
            self.products(number)
            self.roundings(number)
        return self.mutants

    def constants(self, number):
        token = self.tokens[number]
        if token.kind != "float":
            return
        value = float(token.text.rstrip("f"))
        if value == 0 and self.at(number, -1) not in ("=", ",", "{", "(") or self.at(number, 1) in COMPARISONS:
            return  # an absent row's, or what a sign is told by
        self.replace("constant", number, number, f"{value * 1.01:.8e}f" if value else "1.0f")
        if number < self.first and self.at(number, -1) == "-":
            self.replace("sign", number - 1, number, token.text)

    def is_binary(self, number):
        before = self.tokens[number - 1]
        return before.kind in ("name", "int", "float") and before.text != "return" or before.text in (")", "]")

    def signs(self, number):
        token = self.tokens[number]
        if token.text in ("+=", "-="):
            back = number - 1
            while self.at(back) == "]":
                back = self.tokens[back].match - 1
            integer = self.at(back) in self.integers
            self.replace("index" if integer else "sign", number, number, "-=" if token.text == "+=" else "+=")
        elif token.text == "fabsf" and self.at(number, 1) == "(":
            self.replace("sign", number, number, "")
        elif token.text in ("+", "-"):
            if not self.is_binary(number):
                if token.text == "-":
                    self.replace("sign", number, number, "")
            elif not self.is_integer_operation(number):
                self.replace("sign", number, number, "-" if token.text == "+" else "+")

    def is_integer_operation(self, number):
        after, before = self.tokens[number + 1], self.tokens[number - 1]
        if after.kind == "int" or before.kind == "int" or self.operand(number + 1):
            return True
        if self.operand(number - 1) or self.at(number - 2) == "." and self.operand(number - 3):
            return True
        return self.in_index(number)

    def barriers(self, number):
        if self.at(number) in BARRIERS and self.at(number, 1) == "(":
            self.replace("barrier", number, self.tokens[number + 1].match + 1, ";")

    def masks(self, number):
        token = self.tokens[number]
        if token.text == "continue":
            self.replace("mask", number, number, "")
        if token.text not in COMPARISONS or self.is_template_bracket(number):
            return
        if self.in_for_header(number):
            if self.tokens[number + 1].kind != "int" or token.text == ">=":
                self.replace("index", number, number, COMPARISONS[token.text])
            return
        self.replace("mask", number, number, COMPARISONS[token.text])
        first, last = number - 1, number + 1
        begins = ("(", "[", ",", "&&", "||", "?", ":", "=", "return", ";")
        while self.at(first) in (")", "]") or self.at(first - 1) not in begins:
            first = self.tokens[first].match if self.at(first) in (")", "]") else first - 1
        while self.at(last + 1) not in (")", "]", ",", "&&", "||", "?", ":", ";"):
            last = self.tokens[last + 1].match if self.at(last + 1) in ("(", "[") else last + 1
        self.replace("mask", first, last, "true")

    def indices(self, number):
        token = self.tokens[number]
        if token.kind == "int":
            self.index_number(number)
            return
        if token.text in ("/", "%") and self.is_integer_statement(number):
            self.replace("index", number, number, "%" if token.text == "/" else "/")
            return
        if token.text in ("+", "-"):
            if self.is_binary(number) and self.is_integer_operation(number) and self.at(number, 1) != "0":
                self.replace("index", number, number, "-" if token.text == "+" else "+")
            return
        found = self.operand(number)
        if not found or self.is_declared_here(number) or not self.is_index_use(number, found[0]):
            return
        end, name = found
        if name in ("threadIdx.x", "blockIdx.x") and self.is_integer_statement(number):
            return  # the same work by other threads
        other = NEIGHBOURS.get(name)
        self.replace("index", number, end, f"({name} + 1)")
        if other and self.function_of(number) in self.integers.get(other, ()):
            self.replace("index", number, end, other)

    def is_declared_here(self, number):
        return self.at(number, -1) in INTEGER_TYPES or self.at(number, 1) == "=" or self.at(number, -1) in ("++", "--") \
            or self.at(number, 1) in ("+=", "-=")

    def is_index_use(self, number, end):
        neighbours = (self.at(number, -1), self.at(end, 1))
        if any(word in COMPARISONS and not self.is_template_bracket(number - 1 if k == 0 else end + 1)
               for k, word in enumerate(neighbours)):
            return False  # a mask or a loop bound
        if self.in_for_header(number):
            return True
        arithmetic = any(word in ("+", "-", "*", "/", "%") for word in neighbours)
        return arithmetic or self.in_index(number) or self.is_integer_statement(number)

    def index_number(self, number):
        token, value = self.tokens[number], int(self.tokens[number].text)
        if self.is_size(number):
            return
        if any(word == "lane_xor" for _, word in self.around(number)):
            self.replace("index", number, number, str(2 * value))
        elif self.in_for_header(number) and self.at(number, -1) in COMPARISONS:
            self.replace("index", number, number, str(value - 1 if value else 1))
        elif self.at(number, -1) in COMPARISONS or self.at(number, 1) in COMPARISONS:
            return  # a mask
        else:
            self.replace("index", number, number, str(value + 1))

    def products(self, number):
        if self.at(number) != "fmaf" or self.at(number, 1) != "(":
            return
        close = self.tokens[number + 1].match
        parts, first = [], number + 2
        while first < close:
            end = self.expression_end(first, {",", ")"})
            parts.append(self.source(first, end - 1))
            first = end + 1
        a, b, c = parts
        self.replace("fma", number, close, f"fmaf({a}, {b}, -({c}))")
        self.replace("fma", number, close, f"({c})")
        self.replace("fma", number, close, f"(({a}) * ({b}) + ({c}))")

    def roundings(self, number):
        if self.at(number) not in ("to", "round_to") or self.at(number, 1) != "<":
            return
        kind, close = self.at(number, 2), self.tokens[number + 4].match
        inner = self.source(number + 4, close)
        if self.tokens[number + 5].kind == "float":
            return  # exact
        if self.at(number) == "round_to":
            self.replace("rounding", number, close, inner)
            self.replace("rounding", number + 2, number + 2, "fp16" if kind == "bf16" else "bf16")
        elif kind == "float":
            self.replace("rounding", number, close, f"round_to<bf16>{inner}")
        elif kind == "bf16":
            self.replace("rounding", number, close, f"bf16{{static_cast<unsigned short>(__float_as_uint{inner} >> 16)}}")


def mutants_of(text):
    return Enumerator(text).enumerate()
