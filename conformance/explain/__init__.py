"""Explanations: why a requirement failed, from the recorded history alone, in words and lanes."""

from tickproof.conformance.explain.picture import picture
from tickproof.conformance.explain.stories import Story, story, text, with_stories

__all__ = ["Story", "picture", "story", "text", "with_stories"]
