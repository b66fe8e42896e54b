"""Read pages that Shoal writes."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """What is in a page: its text and tags, which must be closed in order, and what it would load."""

    VOID = {"meta", "rect", "path", "br", "use", "circle", "line", "polygon", "img", "link"}

    def __init__(self, text):
        super().__init__()
        self.words, self.tags, self.open, self.loads = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.loads += [v for name, v in attributes if name in ("src", "href", "xlink:href") and v[:1] != "#"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())
