"""Pictures of timelines: SVG, PNG, PDF, TikZ, traces and the page."""
