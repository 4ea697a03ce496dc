"""Pages: one HTML file with timelines that a person works with, and nothing to download.

`columns.js` reads the numbers that `_columns.py` packs, `drawing.js` and `timeline.js` draw them,
and `page.js` is what people do with them.
"""

from ._page import Html, document, page, text_of, timelines

__all__ = ["Html", "document", "page", "text_of", "timelines"]
