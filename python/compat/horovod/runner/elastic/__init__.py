"""What elastic programs import of Horovod's launcher."""
