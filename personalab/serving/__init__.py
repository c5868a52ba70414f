"""What both servers share: addresses, access control, limits and shutdown."""
