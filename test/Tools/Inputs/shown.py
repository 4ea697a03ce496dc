"""Copies standard input, and fails if a terminal would obey a part of it."""

import re
import sys

text = sys.stdin.buffer.read().decode()
obeyed = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
hidden = re.findall(obeyed, text)
sys.stdout.write(text)
sys.exit(f"hidden characters: {hidden!r}" if hidden else 0)
