"""Sends a language server input that ends MLIR's own, and checks that it answers the next message.

usage: lsp-survives.py SERVER BYTECODE
"""

import json
import subprocess
import sys

SCHEDULE = """pipe.schedule @s workers 2 microbatches 1 {
  path on [0, 1]
  worker 0 runs [0F0 1B0]
  worker 1 runs [1F0 1B0]
}
"""
OPEN = SCHEDULE.replace(" {", ' family "\n{', 1)
URI = "test:///s.mlir"


def note(method, **params):
    return {"jsonrpc": "2.0", "method": method, "params": params}


def ask(number, method, **params):
    return {**note(method, **params), "id": number}


def opened(text):
    return note(
        "textDocument/didOpen",
        textDocument={"uri": URI, "languageId": "mlir", "version": 1, "text": text},
    )


def changed(text, line, character):
    place = {"line": line, "character": character}
    return note(
        "textDocument/didChange",
        textDocument={"uri": URI, "version": 2},
        contentChanges=[{"range": {"start": place, "end": place}, "text": text}],
    )


def deep_message():
    return '{"jsonrpc":"2.0","method":"x","params":' + "[" * 200_000 + "]" * 200_000 + "}"


def hover(line, character):
    place = {"line": line, "character": character}
    return ask(2, "textDocument/hover", textDocument={"uri": URI}, position=place)


def cases(bytecode):
    """Messages, and the expected answers."""
    path = "file://" + bytecode
    for end in ("\r\n", "\r", "\n"):
        yield [opened(OPEN.replace("\n", end))], "expected"
        lines = SCHEDULE.replace("\n", end)
        yield [opened(lines), changed(' family "', 0, 41)], "expected"
        yield [opened(lines)], "1B0", "'line': 2"
        yield [opened(lines), changed("0F0 0B0] // ", 2, 17)], "1B0"
    deep = "module {\n" * 20_000
    yield [opened(deep)], "more than 256 brackets", "'line': 256"
    yield [opened(SCHEDULE), changed(deep, 0, 0), hover(2, 20)], "more than 256 brackets"
    yield [deep_message()], "more than 64 values are inside each other"
    yield [ask(2, "mlir/convertFromBytecode", uri=path)], "crashes MLIR's reader"


def answers(server, messages):
    start = ask(0, "initialize", processId=1, rootPath="p", capabilities={}, trace="off")
    sent = b""
    for message in [start, *messages, ask(1, "shutdown"), note("exit")]:
        text = (message if isinstance(message, str) else json.dumps(message)).encode()
        sent += b"Content-Length: %d\r\n\r\n%s" % (len(text), text)
    result = subprocess.run([server], input=sent, capture_output=True)
    return result.returncode, result.stdout, result.stderr.decode()


def parts_of(said):
    while said:
        header, _, rest = said.partition(b"\r\n\r\n")
        size = int(header.split(b":")[1])
        yield json.loads(rest[:size])
        said = rest[size:]


def main():
    server, bytecode = sys.argv[1:]
    with open(bytecode, "rb") as file:
        code = bytearray(file.read())
    code[231] = 7
    with open(bytecode, "wb") as file:
        file.write(code)
    for messages, *wanted in cases(bytecode):
        status, said, error = answers(server, messages)
        said = str(list(parts_of(said)))
        if status != 0 or "'id': 1" not in said or any(text not in said for text in wanted):
            sys.exit(f"{str(messages)[:200]}: status {status}, {said[:2000]}, {error[-500:]}")


if __name__ == "__main__":
    main()
