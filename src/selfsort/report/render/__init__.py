"""How drawings become markup, SVG and figure files; nothing here knows a run."""
