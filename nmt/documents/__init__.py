"""Documents, in which texts are replaced by their translations and everything else is unchanged."""

from nmt.documents.html import HtmlFragment
from nmt.documents.open import FORMATS, is_document, is_marked_up, open_document, read_document, refuse_document
from nmt.documents.types import Document, Translated

__all__ = [
    "FORMATS",
    "Document",
    "HtmlFragment",
    "Translated",
    "is_document",
    "is_marked_up",
    "open_document",
    "read_document",
    "refuse_document",
]
