"""Operations: the fundamental building blocks. They know nothing of search."""
