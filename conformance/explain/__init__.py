"""Explanations: why a requirement failed, from the recorded history alone, in words and lanes."""

from conformance.explain.picture import picture
from conformance.explain.story import Story, story
from conformance.explain.telling import text, told

__all__ = ["Story", "picture", "story", "text", "told"]
