"""`fleet logs pull`: records and readings of all hosts on their way into the lake's landing."""
