"""Writes textmode.golden: random bytes as Python's text mode reads them.

Each line has the bytes, the number of lines, and the text encoded again, in hexadecimal where it is bytes.
"""
import io
import random

random.seed(1)
parts = [b"\n", b"\r", b"\r\n", b"a", b"bc", b"\0", b"\x0b", b"\x1c", b"\x85", "é".encode(), "€".encode(), "😀".encode(),
         "\u2028".encode(), b"\xc3", b"\xe2", b"\xe2\x82", b"\xf0\x9f", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xe0\x80",
         b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf", b"\xf5", b"\xff", b"\xfe", b"\xef\xbb\xbf",
         b"\xef\xbf\xbd", b"\x80", b"\xbf\xbf"]
for i in range(300):
    if i < len(parts):
        data = parts[i]
    elif i % 2:
        data = b"".join(random.choice(parts) for _ in range(random.randrange(12)))
    else:
        lead = random.choice(b"\xc1\xc2\xdf\xe0\xe1\xec\xed\xee\xef\xf0\xf1\xf3\xf4\xf5").to_bytes(1, "big")
        data = lead + bytes(random.choice(b"\x7f\x80\x8f\x90\x9f\xa0\xbf\xc2\r\n") for _ in range(random.randrange(5)))
    text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", errors="replace")
    lines = list(iter(text.readline, ""))
    print(data.hex() or "-", len(lines), "".join(lines).encode().hex() or "-")
