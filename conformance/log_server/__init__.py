"""The data plane: frame codecs, the log server and the output recorder."""
