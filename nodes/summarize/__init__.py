"""The steps that turn a long session into points and open the next one."""
