"""Write every page of docs/ that is made from the code, and the picture.

``python -m docs.tools`` in a checkout. A test fails while one of them is stale.
"""

from docs.tools import diagram, pages

made = pages.pages() | {diagram.PICTURE: diagram.picture()}
for path, text in made.items():
    path.write_text(text, "utf-8")
    print(f"wrote {path.name}")
