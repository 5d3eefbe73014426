"""Archives, .zip and .tar: their members are listed and read as streams, and never unpacked into a folder.

What an archive declares of itself is checked where it is read: members that overlap, that have another size or checksum
than declared, and an archive without the mark of its end are damaged, or made to harm. The memory does not depend on
what is in a member.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path, PurePosixPath

from nmt.errors import DataError
from nmt.files.compressed import compression_of
from nmt.prepare.members import Listed
from nmt.prepare.tar_archive import SHORT, list_tar
from nmt.prepare.zip_archive import list_zip

LIST_BYTES = 1 << 29
"""Maximum memory of the list of an archive's members: a million or so. A few compressed bytes expand to any number."""
MEMBER_BYTES = 500
"""Memory of a member in addition to its name."""


def is_archive(name: str) -> bool:
    """Whether a file name is one of an archive: .zip, .tar, or a compressed tar."""
    path = PurePosixPath(name.lower())
    inner = path if compression_of(path.name) is None else path.with_suffix("")
    return path.suffix == ".zip" or path.suffix in SHORT or inner.suffix == ".tar"


def is_read_in_order(name: str) -> bool:
    """Whether an archive can only be read from front to back: a compressed tar."""
    return not name.lower().endswith((".zip", ".tar"))


def read_archive(path: Path) -> tuple[list[Listed], Counter[str]]:
    """List the files in an archive in its order, and count what is left out by its kind in words, such as `links`.

    Left out are links, devices, and names that lead out of the archive. Of several files with one name it is the last,
    as when they are unpacked.
    A compressed tar can only be read from front to back: once to list it, and once more if its members are opened in
    order, each closed before the next; else from its start for each.
    Raises DataError if it cannot be read, or is damaged.
    """
    left_out: Counter[str] = Counter()
    members: dict[str, Listed] = {}
    size = 0
    for listed in list_zip(path) if path.suffix.lower() == ".zip" else list_tar(path):
        parts = PurePosixPath(listed.name.replace("\\", "/")).parts
        if listed.kind == "folders":
            continue
        if listed.kind:
            left_out[listed.kind] += 1
        elif not parts or parts[0].startswith("/") or ".." in parts:
            left_out["names that lead out of the archive"] += 1
        else:
            name = "/".join(parts)
            members.pop(name, None)
            members[name] = listed._replace(name=name)
            size += MEMBER_BYTES + len(name)
            if size > LIST_BYTES:
                raise DataError(
                    f"{path}: too many members to list, {len(members):,} so far; unpack it and name the folder"
                )
    return list(members.values()), left_out
