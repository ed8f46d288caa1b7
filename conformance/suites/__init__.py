"""The suites: plain pytest, one module a tier; each test decides one requirement."""
