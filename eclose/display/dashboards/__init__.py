"""Runs for the eyes of other programs: TensorBoard, and the dashboard of Optuna."""
