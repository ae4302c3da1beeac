"""Objects of real libraries that exchange no arrays themselves, or only in part."""
