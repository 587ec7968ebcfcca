"""What is recorded, and how closely: sites, wrapped functions, plans."""
