"""Where units live: what masters measure and tell each other, and operators' orders."""
