"""Who judges the judge: mutants that must be failed, sound engines that must not be."""
