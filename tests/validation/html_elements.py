"""The elements of a page, its text, and what its scripts and styles hold."""

from html.parser import HTMLParser
from typing import Any


class Elements(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.inside: list[str] = []  # of scripts and styles
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "input"):
            self.open.append(tag)
        self.inside += [""] if tag in ("script", "style") else []

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("script", "style"):
            self.inside[-1] += data
        else:
            self.text += data
