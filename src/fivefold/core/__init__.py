"""The pure core: values in, values out. No clock, no id, no file, no network, no log line, no async."""
