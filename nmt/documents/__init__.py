"""Documents, in which texts are replaced by their translations and everything else is unchanged."""

from nmt.documents.html import HtmlFragment, html_fragment
from nmt.documents.open import FORMATS, open_document, refuse_document
from nmt.documents.types import Document, Translated

__all__ = ["FORMATS", "Document", "HtmlFragment", "Translated", "html_fragment", "open_document", "refuse_document"]
