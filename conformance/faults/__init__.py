"""Faults as data, and the controller that fires them at their moment."""
