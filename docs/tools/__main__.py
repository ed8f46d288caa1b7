"""Draw the picture of the documents again: ``python -m docs.tools`` in a checkout."""

from docs.tools import diagram

diagram.PICTURE.write_text(diagram.picture(), "utf-8")
print(f"wrote {diagram.PICTURE.name}")
