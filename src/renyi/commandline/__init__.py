"""The command line: options, commands, and what they read and print.

:mod:`renyi.cli` starts a command and tells errors; here is what the commands do. They
call the library and add nothing to it: whatever a command computes, Python can ask for.
"""
