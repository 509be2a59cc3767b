"""What crosses a socket or a file border: messages, their bytes, configuration, log records."""
