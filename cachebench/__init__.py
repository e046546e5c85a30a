"""What a session table's memory layout costs, measured on your machine."""
