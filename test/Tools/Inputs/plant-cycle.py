"""Moves 3F700 of a 1F1B table behind 3B697: 4B697 runs after 4F700, which waits for 3F700."""

import sys

text = sys.stdin.read()
assert " 3F700 " in text and " 3B697 " in text
print(text.replace(" 3F700 ", " ").replace(" 3B697 ", " 3B697 3F700 "))
