"""Trees that lean less on what is sensitive (Goldsteen et al. 2020)."""
