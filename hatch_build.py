"""Makes the long description of a release from ``README.md``: on PyPI its relative links and pictures would lead nowhere.

They lead to the site of ``make site``, whose address is ``Documentation`` below ``[project.urls]``. Without an address, and for files that are no
pages of the site, a link becomes its text, and a picture goes.
"""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+://|#)([^)\s#]+)(#[^)\s]*)?\)")


class ReadmeHook(MetadataHookInterface):
    """What hatchling calls for each build."""

    def update(self, metadata):
        """Add the long description to the metadata of the project."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        site = metadata.get("urls", {}).get("Documentation", "")
        metadata["readme"] = {"content-type": "text/markdown", "text": described(text, site)}


def described(text, site):
    """The text with links that lead to pages and pictures below this address, or nowhere if it is empty."""

    def shown(link):
        picture, words, target, anchor = link[1], link[2], link[3], link[4] or ""
        page = re.fullmatch(r"docs/(?!decisions/)(.+)\.md", target)
        if site and (page or target.startswith("docs/images/")):
            place = (
                target.removeprefix("docs/")
                if page is None
                else page[1].removesuffix("index") + "/" * (page[1] != "index")
            )
            return f"{picture}[{words}]({site.rstrip('/')}/{place}{anchor})"
        return "" if picture else words

    return LINK.sub(shown, text)
