"""Pages: one HTML file with timelines, and nothing to download. `columns.js` reads the data that
`_page.py` packs, `drawing.js` and `timeline.js` draw it, `page.js` reacts to people.
"""

from ._page import Html, document, page, text_of, timelines

__all__ = ["Html", "document", "page", "text_of", "timelines"]
