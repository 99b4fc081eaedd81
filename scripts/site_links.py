"""A hook of ``make site``: links of pages to files of the repository that are no pages of the site become plain text.

`tests/style/test_docs.py` checks that these files exist; mkdocs checks all other links.
"""

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown, page, config, files):
    """Called by mkdocs for each page."""
    here = DOCS / Path(page.file.src_uri).parent
    known = {(DOCS / file.src_uri).resolve() for file in files}

    def shown(link):
        text, target = link[1], link[2]
        if "://" in target or (here / target).resolve() in known:
            return link[0]
        if (here / target).resolve() == DOCS.parent / "README.md":
            return f"[{text}]({'../' * page.file.src_uri.count('/')}index.md)"
        return text

    return LINK.sub(shown, markdown)
