"""What is installed, and where: the wheel alone, and each supported release of PySpark."""
