"""Commands of the program, one module each; `register` of a module adds its command."""
