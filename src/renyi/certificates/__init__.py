"""Certification: the bounds of a certificate, step by step, and their wording.

`certify` itself is in :mod:`renyi.certification`.
"""
