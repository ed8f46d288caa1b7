"""Reports as JSON, JUnit and HTML, and on a terminal."""
