"""Explanations: why a requirement failed, from the recorded history alone, in words and lanes."""

from tickproof.conformance.explain.picture import picture
from tickproof.conformance.explain.stories import text, told
from tickproof.conformance.explain.story import Story, story

__all__ = ["Story", "picture", "story", "text", "told"]
