"""Reports of measurements: one HTML file each, with its style and pictures inside, for a screen, a phone or paper."""
