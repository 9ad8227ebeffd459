"""Every setting of neardup, with unit, default, bound and reason."""
