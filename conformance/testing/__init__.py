"""For tests of checkers and judges: output logs and run folders made from plain values."""
