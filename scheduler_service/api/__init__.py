"""REST in: authenticate, validate, translate, deliver, answer."""
