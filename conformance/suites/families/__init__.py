"""The families of requirements: promise, scenario and judge side by side, a module each."""
