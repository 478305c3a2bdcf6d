"""What several tests share: tables, engines, ground truth by linear programs."""
