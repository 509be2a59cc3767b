"""Message processors, one folder each; `processors.base` defines their interface."""
